// A link that was opened from another site's page sets the cookie, but the browser sends it only from now on.
const tried = new URLSearchParams(location.search).has("token");
history.replaceState(null, "", "/");
document.getElementById("wrong").hidden = !tried;
if (!tried && !sessionStorage.getItem("mdcontest.tried")) {
  sessionStorage.setItem("mdcontest.tried", "once");
  location.replace("/");
}
