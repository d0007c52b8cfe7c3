/** For tests: a page that tries to get out, and a listener that hears whether it did. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

/** Counts what arrives on a port of this machine. */
export async function listen(): Promise<{ port: number; heard: string[]; close(): Promise<void> }> {
  const heard: string[] = [];
  const server = createServer((request, response) => {
    heard.push(`${request.method} ${request.url}`);
    response.setHeader("access-control-allow-origin", "*");
    response.end("heard");
  });
  server.on("upgrade", (request, socket) => {
    heard.push(`UPGRADE ${request.url}`);
    socket.destroy();
  });
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const { port } = server.address() as AddressInfo;
  return {
    port,
    heard,
    close: () =>
      new Promise((done) => {
        server.closeAllConnections();
        server.close(() => done());
      }),
  };
}

/** Everything that a page can try without a bug in the browser, at once and on every click. */
export function attackPage(port: number): string {
  const hosts = [`http://127.0.0.1:${port}`, `http://localhost:${port}`, `http://[::ffff:127.0.0.1]:${port}`];
  return `<!doctype html><title>attack</title><body><button id="b" style="position:fixed;inset:0">press</button>
<link rel="prefetch" href="${hosts[0]}/prefetch"><link rel="preconnect" href="${hosts[0]}"><link rel="stylesheet" href="${hosts[0]}/css">
<img src="${hosts[0]}/img"><script src="${hosts[0]}/script"></script><iframe src="${hosts[0]}/frame"></iframe><object data="${hosts[1]}/object"></object>
<script>
const hosts = ${JSON.stringify(hosts)};
const tried = [];
const attempt = (name, run) => { try { const made = run(); made?.catch?.(() => {}); tried.push(name); } catch (error) { tried.push(name + "!"); } };
function attack() {
  for (const host of hosts) {
    attempt("fetch", () => fetch(host + "/fetch", { mode: "no-cors" }));
    attempt("beacon", () => navigator.sendBeacon(host + "/beacon", "x"));
    attempt("socket", () => new WebSocket(host.replace("http", "ws") + "/socket"));
    attempt("events", () => new EventSource(host + "/events"));
    attempt("worker", () => new Worker(URL.createObjectURL(new Blob(["fetch('" + host + "/worker',{mode:'no-cors'});new WebSocket('" + host.replace("http", "ws") + "/worker')"]))));
    attempt("open", () => window.open(host + "/window"));
    attempt("frame window", () => { const f = document.createElement("iframe"); document.body.append(f); f.contentWindow.fetch(host + "/inner", { mode: "no-cors" }); f.contentWindow.open(host + "/inner-window"); });
    attempt("form", () => { const f = document.createElement("form"); f.method = "post"; f.target = "_blank"; f.action = host + "/form"; document.body.append(f); f.submit(); });
    attempt("link", () => { const a = document.createElement("a"); a.href = host + "/link"; a.target = "_blank"; a.click(); });
    attempt("ping", () => { const a = document.createElement("a"); a.href = "#x"; a.ping = host + "/ping"; document.body.append(a); a.click(); });
    attempt("redirect", () => { location.href = host + "/redirect"; });
  }
  attempt("service worker", () => navigator.serviceWorker.register("/sw.js"));
  attempt("rtc", () => new RTCPeerConnection({ iceServers: [{ urls: "stun:127.0.0.1:${port}" }] }).createOffer());
  attempt("download", () => { const a = document.createElement("a"); a.href = URL.createObjectURL(new Blob(["bad"])); a.download = "saccade-attack.txt"; a.click(); });
  attempt("download data", () => { const a = document.createElement("a"); a.href = "data:application/octet-stream,bad"; a.download = "saccade-attack-2.txt"; a.click(); });
  attempt("file", () => { location.href = "file:///etc/passwd"; });
  attempt("read", () => fetch("file:///etc/passwd").then((r) => r.text()).then((t) => { globalThis.read = t; }));
  attempt("folder", () => fetch("/../../../../etc/passwd").then((r) => r.text()).then((t) => { globalThis.above = t; }));
  for (let i = 0; i < 20; i++) { attempt("alert", () => alert("x")); attempt("confirm", () => confirm("x")); attempt("prompt", () => prompt("x")); }
  attempt("print", () => print());
  attempt("close", () => window.close());
  attempt("top close", () => top.close());
  attempt("fullscreen", () => document.documentElement.requestFullscreen());
  attempt("unload", () => { window.onbeforeunload = (event) => { event.preventDefault(); return "stay"; }; });
}
attack();
b.onclick = attack;
setTimeout(attack, 100);
globalThis.world = { goal: () => "Press nothing.", done: () => false, score: () => 0 };
</script>`;
}
