// A link that was opened from another site's page sets the cookie, but the browser sends it only from here on: look again.
const tried = new URLSearchParams(location.search).has("token");
history.replaceState(null, "", "/");
document.getElementById("wrong").hidden = !tried;
if (!tried) {
  const reply = await fetch("/api/state", { cache: "no-store" });
  if (reply.ok) location.replace("/");
}
