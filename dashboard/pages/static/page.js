// What plain HTML cannot do: say when the page is not live, and keep times that are told as "3 min ago" true.
"use strict";

const lost = document.getElementById("lost");
const live = document.getElementById("live");
if (live && lost) {
  live.addEventListener("htmx:sse:after:connection", () => { lost.hidden = true; document.documentElement.dataset.live = "yes"; });
  live.addEventListener("htmx:sse:error", () => { lost.hidden = false; document.documentElement.dataset.live = "no"; });
}

// The same words as span() of rendering.py.
function span(seconds) {
  const all = Math.max(0, Math.round(seconds));
  const days = Math.floor(all / 86400), hours = Math.floor(all / 3600) % 24, minutes = Math.floor(all / 60) % 60;
  if (days) return hours ? `${days} d ${hours} h` : `${days} d`;
  if (hours) return minutes ? `${hours} h ${minutes} min` : `${hours} h`;
  return minutes ? `${minutes} min` : `${all} s`;
}

// The server's clock counts, as in the times that it sends: that of the browser may be wrong.
let sent = "", readAt = 0;
function tell() {
  const main = document.getElementById("content");
  if (main.dataset.now !== sent) { sent = main.dataset.now; readAt = performance.now(); }
  const now = Number(sent) * 1000 + performance.now() - readAt;
  for (const time of document.querySelectorAll("time[datetime]:not([data-clock])")) {
    const away = (Date.parse(time.dateTime) - now) / 1000;
    const words = time.hasAttribute("data-lasting") ? span(-away) : away > 0 ? `in ${span(away)}` : `${span(-away)} ago`;
    if (time.textContent !== words) time.textContent = words;
  }
}
tell();
setInterval(tell, 5000);
