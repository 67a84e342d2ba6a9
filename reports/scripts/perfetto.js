// Opens the Perfetto UI in another tab and passes it the trace
// (https://perfetto.dev/docs/visualization/deep-linking-to-perfetto-ui): the UI answers PING with PONG once
// it listens.
"use strict";
(() => {
  const button = document.getElementById("open");
  const said = document.getElementById("said");
  const say = (text) => {
    said.textContent = text;
  };
  const listening = (tab, origin) =>
    new Promise((resolve, reject) => {
      const end = (settle) => {
        clearInterval(asking);
        clearTimeout(limit);
        removeEventListener("message", hear);
        settle();
      };
      const hear = (event) => {
        if (event.source === tab && event.origin === origin && event.data === "PONG") end(resolve);
      };
      addEventListener("message", hear);
      const asking = setInterval(() => {
        if (tab.closed) end(() => reject(new Error("its tab was closed")));
        else tab.postMessage("PING", origin);
      }, 100);
      const limit = setTimeout(() => end(() => reject(new Error("no answer within 60 s; is there a network?"))), 60000);
    });

  button.addEventListener("click", async () => {
    const tab = window.open(button.dataset.ui);
    if (!tab) {
      say("The browser kept the tab from opening: allow pop-ups of this page.");
      return;
    }
    say("Waiting for Perfetto …");
    try {
      const origin = new URL(button.dataset.ui).origin;
      const trace = fetch("trace.json").then((answer) => {
        if (!answer.ok) throw new Error(`the trace cannot be read (${answer.status}); does isobar open still run?`);
        return answer.arrayBuffer();
      });
      const [buffer] = await Promise.all([trace, listening(tab, origin)]);
      tab.postMessage({ perfetto: { buffer, title: button.dataset.name, fileName: button.dataset.name } }, origin);
      say("Handed over.");
    } catch (error) {
      say(`Perfetto did not open: ${error.message}`);
    }
  });
})();
