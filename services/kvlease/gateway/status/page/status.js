"use strict";
// Draws /ui/status.json every two seconds. Nothing here writes.

const EVERY = 2000; // ms
const $ = (id) => document.getElementById(id);
let paused = false;
let timer = 0;

// What comes from the server becomes text, never markup.
function make(name, attributes = {}, ...children) {
  const svg = ["svg", "rect", "path", "line", "text", "circle"].includes(name);
  const made = svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "style") made.style.cssText = value; // an attribute would need a laxer policy
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

const count = (n) => Math.round(n).toLocaleString("en");
const brief = (n) => n.toLocaleString("en", { notation: "compact" });
const share = (part, whole) => (whole ? `${Math.round((100 * part) / whole)} %` : "–");
const sum = (points, name) => points.reduce((total, point) => total + point[name], 0);

function span(seconds) {
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 100) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  return seconds < 6000 ? `${Math.round(seconds / 60)} min` : `${(seconds / 3600).toFixed(1)} h`;
}

function figures(status) {
  const recent = status.history.points.slice(-Math.ceil(300 / status.history.every));
  const tokens = ["reused", "local", "computed"].map((name) => sum(recent, name));
  const all = tokens[0] + tokens[1] + tokens[2];
  const timed = recent.filter((point) => point.ttft_median !== null);
  const median = timed.map((point) => point.ttft_median).sort((a, b) => a - b)[timed.length >> 1];
  const blocks = status.engines.map((engine) => engine.blocks);
  const shown = [
    ["read from decode, 5 min", share(tokens[0], all)],
    ["in prefill's cache, 5 min", share(tokens[1], all)],
    ["computed, 5 min", share(tokens[2], all)],
    ["first token of streams, 5 min", median === undefined ? "–" : span(median)],
    ["leases", count(sum(status.engines, "leases"))],
    ["blocks kept", share(sum(blocks, "leased"), sum(blocks, "total"))],
  ];
  $("figures").replaceChildren(...shown.map(([term, value]) => make("div", {}, make("dt", {}, term), make("dd", {}, value))));
}

function engine(of) {
  const { total, free, leased, claimed } = of.blocks;
  const parts = { used: Math.max(0, total - free - leased), leased: Math.max(0, leased - claimed), claimed: Math.min(claimed, leased), free };
  const told = `${count(free)} of ${count(total)} blocks free, ${count(parts.used)} in use, ${count(leased)} kept by ${count(of.leases)} ${of.leases === 1 ? "lease" : "leases"}${claimed ? `, ${count(claimed)} of them being read` : ""}`;
  const bar = make("div", { class: "bar", role: "img", "aria-label": told });
  for (const name of ["used", "leased", "claimed"]) {
    bar.append(make("span", { class: name, style: `width:${total ? (100 * parts[name]) / total : 0}%` }));
  }
  const state = of.healthy ? (of.draining ? "draining" : "") : `not heard of for ${span(of.silent)}`;
  return make(
    "li", {},
    make("h3", {}, `${of.id} · ${of.role}`),
    make("p", {}, `${of.models.join(", ")} · vLLM ${of.vllm_version}`),
    make("p", {}, `${of.running} running, ${of.waiting} waiting`, ...(state ? [" · ", make("strong", { class: "bad" }, state)] : [])),
    bar,
    make("p", {}, told),
  );
}

// A chart's frame: 0 at the bottom, `most` at the top, now at the right.
const WIDTH = 560, HEIGHT = 180, LEFT = 62, TOP = 8, BOTTOM = 160;

function frame(most, unit, label, seconds) {
  const chart = make("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label });
  for (const part of [0, 0.5, 1]) {
    const y = BOTTOM - part * (BOTTOM - TOP);
    chart.append(make("line", { class: "grid", x1: LEFT, x2: WIDTH, y1: y, y2: y }), make("text", { x: LEFT - 6, y: y + 4, "text-anchor": "end" }, unit(part * most)));
  }
  chart.append(make("text", { x: LEFT, y: HEIGHT - 4 }, `${span(seconds)} ago`), make("text", { x: WIDTH, y: HEIGHT - 4, "text-anchor": "end" }, "now"));
  return chart;
}

function reuse({ points, every, keep }) {
  const names = ["reused", "local", "computed"];
  const totals = points.map((point) => names.reduce((total, name) => total + point[name], 0));
  const most = Math.max(1, ...totals), step = (WIDTH - LEFT) / keep;
  const label = `Prompt tokens in the last ${span(points.length * every)}: ${names.map((name) => `${count(sum(points, name))} ${name}`).join(", ")}`;
  const chart = frame(most, brief, label, keep * every);
  points.forEach((point, index) => {
    let y = BOTTOM;
    for (const name of names) {
      const height = (point[name] / most) * (BOTTOM - TOP);
      y -= height;
      if (height) chart.append(make("rect", { class: name, x: WIDTH - (points.length - index) * step, y, width: Math.max(1, step - 0.3), height }));
    }
  });
  $("reuse").replaceChildren(chart);
}

function ttft({ points, every, keep }) {
  const values = points.flatMap((point) => (point.ttft_tail === null ? [] : [point.ttft_tail]));
  const most = Math.max(0.01, ...values), step = (WIDTH - LEFT) / keep;
  const last = points.findLast((point) => point.ttft_median !== null);
  const label = last ? `Latest: half within ${span(last.ttft_median)}, 95 of 100 within ${span(last.ttft_tail)}` : "No stream yet";
  const chart = frame(most, span, label, keep * every);
  for (const name of ["tail", "median"]) {
    const dots = points.flatMap((point, index) => (point[`ttft_${name}`] === null ? [] : [[WIDTH - (points.length - index - 0.5) * step, BOTTOM - (point[`ttft_${name}`] / most) * (BOTTOM - TOP)]]));
    chart.append(make("path", { class: name, d: dots.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("") }));
    if (dots.length) chart.append(make("circle", { class: name, cx: dots.at(-1)[0], cy: dots.at(-1)[1], r: 2.5 }));
  }
  $("ttft").replaceChildren(chart);
}

// In plain words, the reasons that are seen most; `kvlease explain` says more of each.
const GLOSSES = {
  NO_LEASE: "nothing is kept of the conversation any more",
  NO_MATCH: "the prompt does not begin like what was kept",
  FOUND_LOCALLY: "prefill's own cache had as much",
  OWN_LEASE: "the engine that prefills keeps it itself",
  BELOW_THRESHOLD: "too few tokens to be worth a read",
  LEASE_NOT_FOUND: "the lease went away meanwhile",
  WAIT_OVER: "registry or router took too long",
  ROUTER_SILENT: "the router took too long",
  UNREACHABLE: "the engine could not reach registry or router",
  NO_SESSION: "the engine has no session with the registry",
  READ_FAILED: "the read from decode failed",
  READ_LATE: "the read took too long",
  NOT_BIDIRECTIONAL: "prefill is not set to read KV back",
};

function misses(reasons) {
  const rows = Object.entries(reasons).sort((a, b) => b[1] - a[1]);
  const most = rows.length ? rows[0][1] : 1;
  const none = make("li", { class: "none" }, "No turn has missed anything yet.");
  $("misses").replaceChildren(...(rows.length ? rows.map(([reason, n]) =>
    make("li", {}, make("span", {}, make("code", {}, reason), ...(GLOSSES[reason] ? [make("small", {}, GLOSSES[reason])] : [])), make("div", { class: "bar", "aria-hidden": "true" }, make("span", { style: `width:${(100 * n) / most}%` })), make("output", {}, count(n)))) : [none]));
}

function lease(of, reach) {
  const past = (50 * Math.min(of.age, reach)) / reach, ahead = (50 * Math.min(of.remaining, reach)) / reach;
  const life = make("div", { class: "life", role: "img", "aria-label": `granted ${span(of.age)} ago, lives for ${span(of.remaining)}`, title: `granted ${span(of.age)} ago, idle for ${span(of.idle)}, lives for ${span(of.remaining)}` },
    make("span", { class: of.claims ? "past claimed" : "past", style: `left:${50 - past}%;width:${past}%` }),
    make("span", { class: "ahead", style: `left:50%;width:${ahead}%` }));
  const state = of.claims ? `${of.state}, ${of.claims} reading` : of.state;
  const cells = [of.conversation || "(none)", span(of.remaining), count(of.tokens), state, count(of.generation), of.engine];
  return make("tr", {}, ...cells.map((cell) => make("td", { title: cell }, cell)), make("td", { class: "line" }, life));
}

function leases(status) {
  const rows = status.leases, reach = Math.max(1, ...rows.map((row) => Math.max(row.age, row.remaining)));
  $("leases").replaceChildren(...rows.map((row) => lease(row, reach)));
  $("leases-note").textContent = rows.length ? (status.more_leases ? `The oldest ${rows.length} are shown.` : "") : "No lease is live.";
  $("line-note").textContent = rows.length ? `Now is the middle line; its ends are ${span(reach)} away.` : "";
}

function draw(status) {
  figures(status);
  $("engines").replaceChildren(...status.engines.map(engine));
  reuse(status.history);
  ttft(status.history);
  misses(status.misses);
  leases(status);
  document.querySelector("main").hidden = false;
}

function tell(text, bad = false) {
  $("state").textContent = text;
  $("state").className = bad ? "bad" : "";
}

async function refresh() {
  clearTimeout(timer);
  try {
    const key = sessionStorage.getItem("key");
    const answer = await fetch("/ui/status.json", { headers: key ? { authorization: `Bearer ${key}` } : {}, cache: "no-store" });
    const refused = answer.status === 401 || answer.status === 403;
    $("credentials").hidden = !refused;
    if (refused) {
      document.querySelector("main").hidden = true;
      tell(key ? "the gateway refuses this key" : "the gateway asks for a key", Boolean(key));
      return;
    }
    const status = await answer.json();
    if (!answer.ok) throw new Error(status.error.message);
    draw(status);
    const lost = status.engines.filter((each) => !each.healthy).length;
    const warning = !status.registry_reached ? "the registry does not answer: what is shown is old" : lost ? `${lost} of ${status.engines.length} engines not heard of` : "";
    tell(warning || `${status.engines.length} engines, as of ${new Date().toLocaleTimeString()}`, Boolean(warning));
  } catch (error) {
    tell(`not updated: ${error.message}`, true);
  }
  if (!paused) timer = setTimeout(refresh, EVERY);
}

$("pause").addEventListener("click", () => {
  paused = !paused;
  $("pause").setAttribute("aria-pressed", String(paused));
  $("pause").textContent = paused ? "Resume" : "Pause";
  if (paused) clearTimeout(timer);
  else refresh();
});
$("credentials").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("key", $("key").value);
  refresh();
});
document.addEventListener("visibilitychange", () => {
  if (document.hidden) clearTimeout(timer);
  else if (!paused) refresh();
});
refresh();
