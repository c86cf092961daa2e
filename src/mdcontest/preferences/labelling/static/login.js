// A link that was opened from another site's page sets the cookie, but the browser sends it only from now on: look again.
const tried = new URLSearchParams(location.search).has("token");
history.replaceState(null, "", "/");
document.getElementById("wrong").hidden = !tried;
if (!tried && !sessionStorage.getItem("mdcontest.tried")) {
  sessionStorage.setItem("mdcontest.tried", "once");
  addEventListener("load", () => location.replace("/"));
}
