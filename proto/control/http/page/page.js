"use strict";
/*
 * Shows what /events tells. All text goes in by textContent: names and reasons are bytes of others.
 * An event is the whole truth; only the lines of the charts are remembered from one to the next.
 */
(() => {
	const $ = (id) => document.getElementById(id);
	const SILENT_MS = 3000; // two events are missing
	const SPAN_MS = 120000; // of a chart
	const GAP_MS = 3000; // between two samples: no line joins them
	const AGAIN_MS = 5000;
	const SOON_S = 14 * 86400; // of certificates, as in alerts.yml

	/* ---- states: a sign and a grade. The daemon tells its own grade, and the remedy of its reason ---- */

	const SIGNS = {good: "●", busy: "◐", bad: "▲", unknown: "…"};
	const COLOURS = {good: "#0a6b3d", busy: "#e09020", bad: "#d02020", unknown: "#808080"};
	const ORDER = {bad: 0, unknown: 1, busy: 2, good: 3};
	const TOLD = {good: "good", passing: "busy", bad: "bad"};
	/* Of what is known by its state alone: agents, and what was. */
	const GRADES = {
		live: "good", warm: "good", serving: "good", standby: "good",
		scanning: "busy", reconciling: "busy", bootstrapping: "busy", lagging: "busy", loading: "busy", joining: "busy",
		connecting: "busy", source_down: "bad", table_full: "bad", held: "bad", unconfirmed: "bad",
		stalled: "bad", failed: "bad", stale: "bad",
	};
	const MEANINGS = {
		live: "Every key of the primary is in the table.",
		warm: "The replica is equal, and nothing is known to be missing.",
		serving: "Reads are answered from the proxy's table.",
	};
	const ROLES = {master: "primary", slave: "replica"};

	const grade = (state) => GRADES[state] || "unknown";
	const gradeOf = (s) => TOLD[s.grade] || grade(s.state);
	/* One that reports to its proxy is connected to it, so what it lacks is its own server. */
	const gradeOfAgent = (a) => a.role === "agent" && a.state === "connecting" ? "bad" : grade(a.state);

	/* ---- text ---- */

	const known = (n) => typeof n === "number" && Number.isFinite(n);
	const UNKNOWN = "not known";

	/* Bytes that a screen does not show, or that turn what follows round, are shown as numbers. */
	function plain(text) {
		return String(text).replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g,
			(c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
	}

	function count(n) {
		return known(n) ? n.toLocaleString("en") : UNKNOWN;
	}

	function bytes(n) {
		const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
		let unit = 0;
		if (!known(n))
			return UNKNOWN;
		for (; n >= 1024 && unit < units.length - 1; unit++)
			n /= 1024;
		return (unit && n < 100 ? n.toFixed(1) : Math.round(n)) + " " + units[unit];
	}

	function span(seconds) {
		if (!known(seconds))
			return UNKNOWN;
		if (seconds < 60)
			return Math.max(0, Math.round(seconds)) + " s";
		if (seconds < 3600)
			return Math.round(seconds / 60) + " min";
		if (seconds < 172800)
			return (seconds / 3600).toFixed(1) + " h";
		return Math.round(seconds / 86400) + " days";
	}

	function millis(ms) {
		if (!known(ms))
			return UNKNOWN;
		if (ms > 0 && ms < 10)
			return ms.toFixed(1) + " ms";
		return ms < 1000 ? Math.round(ms) + " ms" : ms < 10000 ? (ms / 1000).toFixed(1) + " s" : span(ms / 1000);
	}

	const share = (n) => known(n) ? (100 * n).toFixed(n > 0 && n < 0.1 ? 1 : 0) + " %" : UNKNOWN;

	/* ---- elements: made once, and changed only where their text differs ---- */

	function put(element, text) {
		text = plain(text);
		if (element.textContent !== text)
			element.textContent = text;
	}

	function make(tag, className, text, attributes) {
		const element = document.createElement(tag);
		if (className)
			element.className = className;
		if (text !== undefined)
			put(element, text);
		for (const [name, value] of Object.entries(attributes || {}))
			element.setAttribute(name, value);
		return element;
	}

	/* Those that this event does not name. */
	function drop(keep, shown) {
		for (const [id, entry] of shown)
			if (!keep.has(id)) {
				entry.row.remove();
				shown.delete(id);
			}
	}

	/* ---- charts of the last two minutes: where a value is not known, there is no line ---- */

	const SVG = "http://www.w3.org/2000/svg";

	function chart(label) {
		const svg = document.createElementNS(SVG, "svg");
		const shapes = ["area", "floor", "line"].map((name) => {
			const path = document.createElementNS(SVG, "path");
			path.setAttribute("class", name);
			svg.append(path);
			return path;
		});
		svg.setAttribute("viewBox", "0 0 120 24");
		svg.setAttribute("preserveAspectRatio", "none");
		svg.setAttribute("role", "img");
		shapes[1].setAttribute("d", "M0 23.5H120");
		return {svg, area: shapes[0], line: shapes[2], label, samples: []};
	}

	/* Runs of samples that belong together. */
	function runs(samples) {
		const all = [];
		let last = -Infinity;
		for (const sample of samples) {
			if (!known(sample.value))
				continue;
			if (sample.at - last > GAP_MS)
				all.push([]);
			all[all.length - 1].push(sample);
			last = sample.at;
		}
		return all;
	}

	function draw(c, value) {
		const now = performance.now();
		c.samples.push({at: now, value});
		c.samples = c.samples.filter((s) => now - s.at <= SPAN_MS);
		const parts = runs(c.samples);
		const most = Math.max(1, ...parts.flat().map((s) => s.value));
		const x = (s) => (120 - (now - s.at) * 120 / SPAN_MS).toFixed(2);
		const y = (s) => (23 - 21 * s.value / most).toFixed(2);
		const lines = parts.map((run) => run.map((s) => x(s) + " " + y(s)).join("L"));
		c.line.setAttribute("d", lines.map((line) => "M" + line + "h.01").join(""));
		c.area.setAttribute("d", lines.map((line, i) =>
			"M" + x(parts[i][0]) + " 23.5L" + line + "V23.5Z").join(""));
		c.most = parts.length ? Math.max(...parts.flat().map((s) => s.value)) : undefined;
		c.svg.setAttribute("aria-label", c.label + ": " + millis(value) + " now, at most " + millis(c.most));
	}

	/* ---- figures, in panels ---- */

	const panels = new Map(), figures = new Map();
	let named = new Set();

	function panel(title) {
		let list = panels.get(title);
		if (!list) {
			const box = make("section", "panel"), heading = make("h2", "", title, {id: "panel-" + panels.size});
			list = make("dl");
			box.setAttribute("aria-labelledby", heading.id);
			box.append(heading, list);
			$("figures").append(box);
			panels.set(title, list);
		}
		return list;
	}

	/* full: how much of a bar, from 0 to 1. */
	function figure(title, name, text, {mark = "", full} = {}) {
		const id = title + "/" + name;
		let entry = figures.get(id);
		if (!entry) {
			entry = {row: make("div"), value: make("dd", "value")};
			entry.row.append(make("dt", "", name), entry.value);
			if (known(full)) {
				const meter = make("div", "meter", undefined, {"aria-hidden": "true"});
				entry.full = make("span");
				meter.append(entry.full);
				entry.row.append(meter);
			}
			panel(title).append(entry.row);
			figures.set(id, entry);
		}
		named.add(id);
		entry.row.className = mark;
		put(entry.value, text);
		if (entry.full && known(full))
			entry.full.style.width = (100 * Math.min(1, Math.max(0, full))).toFixed(1) + "%";
	}

	const of = (a, b) => known(a) && b > 0 ? a / b : 0;
	const fullness = (n) => n >= 0.9 ? "bad" : n >= 0.75 ? "busy" : "";

	function ofProxy(s) {
		const table = s.table || {}, pace = s.pace || {}, mandate = s.mandate || {};
		const used = of(table.live_bytes, table.capacity_bytes);
		figure("Primary", "Address", s.redis);
		figure("Primary", "Role", ROLES[mandate.role] || mandate.role || UNKNOWN);
		figure("Primary", "Confirmed by", mandate.by === "none" ? "no one (authority.by)"
			: mandate.by + ": " + mandate.state + ", term " + mandate.term);
		figure("Primary", "Keyspace events", s.flags);
		if (s.missing_keys > 0)
			figure("Primary", "Keys that it lacks", count(s.missing_keys) + " of " + count(s.missing_of), {mark: "bad"});
		figure("Table", "Keys", count(s.keys));
		figure("Table", "Room taken by keys", bytes(table.live_bytes) + " of " + bytes(table.capacity_bytes),
			{full: used, mark: fullness(used)});
		figure("Table", "Changed keys to fetch", count(s.dirty_keys));
		figure("Table", "Fetched since the start", count(s.fetches) + " keys, " + bytes(s.fetched_bytes));
		figure("Pace", "Share of the primary's time", share(pace.taken) + " of " + share(pace.target),
			{full: of(pace.taken, pace.target)});
		figure("Pace", "Busy with others", share(pace.primary_busy));
		figure("Pace", "Holding back", pace.holding_back ? "yes: the primary is saturated" : "no",
			{mark: pace.holding_back ? "busy" : ""});
		figure("Pace", "Time for one key", known(pace.key_us) ? Math.round(pace.key_us) + " µs" : UNKNOWN);
		for (const l of s.listeners || [])
			figure("Listening", l.address, l.state + (l.reason ? ": " + l.reason : ""),
				{mark: l.state === "listening" ? "" : "bad"});
	}

	function ofAgent(s) {
		const local = s.local || {};
		const found = s.audit_found_different + s.audit_found_missing + s.audit_found_extra;
		const mended = s.audit_mended_different + s.audit_mended_missing + s.audit_mended_extra;
		figure("From the proxy", "Proxy", s.proxy);
		figure("From the proxy", "Carrier", s.transport + (s.device ? ", " + s.device : ""));
		figure("From the proxy", "Oldest change not applied", s.lag_ms > 0 ? millis(s.lag_ms) + " old" : s.lag_ms === 0 ? "none" : UNKNOWN);
		figure("From the proxy", "Median lag of changes", s.lag_samples > 0 ? millis(s.lag_p50_us / 1000) : UNKNOWN);
		figure("From the proxy", "99 % of changes within", s.lag_samples > 0 ? millis(s.lag_p99_us / 1000) : UNKNOWN);
		figure("From the proxy", "Read", bytes(s.bytes_read));
		for (const p of (s.proxies || []).length > 1 ? s.proxies : [])
			figure("Proxies", p.proxy, p.followed ? "followed" : p.why || (p.seen ? "stands by" : "not seen"));
		figure("Local server", "Address", local.address);
		figure("Local server", "Version", local.version || UNKNOWN);
		figure("Local server", "Keys", count(local.keys));
		figure("Local server", "Written by", s.mode);
		figure("Local server", "Filter", s.filters);
		figure("Audit", "All keys were compared", known(s.proven_equal_s) ? span(s.proven_equal_s) + " ago" : "not yet");
		figure("Audit", "Keys compared", count(s.audit_compared));
		figure("Audit", "Differences found", count(found) + ", mended " + count(mended), {mark: found > mended ? "busy" : ""});
		figure("Audit", "In quarantine", count(s.quarantined), {mark: s.quarantined > 0 ? "bad" : ""});
	}

	function ofGateway(s) {
		figure("From the proxy", "Proxy", s.proxy);
		figure("From the proxy", "Carrier", s.transport + (s.device ? ", " + s.device : ""));
		figure("From the proxy", "Read", bytes(s.bytes_read));
		figure("Clients", "Connected", count(s.clients));
		figure("Clients", "Requests", count(s.requests));
		figure("Clients", "Forwarding to the primary", s.forward);
		figure("Age of answers", "Median", millis(s.staleness_p50_us / 1000));
		figure("Age of answers", "Oldest 1 %", millis(s.staleness_p99_us / 1000));
		figure("Age of answers", "Oldest", millis(s.staleness_max_us / 1000));
	}

	const SHOW = {proxy: ofProxy, agent: ofAgent, gateway: ofGateway};

	function certificate(key, seconds) {
		figure("Certificates", key, seconds > 0 ? "valid for " + span(seconds) : "run out",
			{mark: seconds <= 0 ? "bad" : seconds < SOON_S ? "busy" : ""});
	}

	function showFigures(m) {
		named = new Set();
		(SHOW[m.daemon] || (() => {}))(m.status);
		for (const [key, at] of Object.entries(m.status.certificates || {}))
			certificate(key, at - m.now_us / 1e6);
		drop(named, figures);
	}

	/* ---- how old what is there may be: the chart beside the state ---- */

	const AGES = {
		proxy: "The table was equal to the primary",
		agent: "The replica was equal to the primary",
		gateway: "The table was equal to the primary",
	};
	const age = chart("Age of the data");

	/* fresh_us is by the proxy's clock, which is clock_skew_us ahead of an agent's. */
	function ageMs(m) {
		const s = m.status;
		if (m.daemon === "gateway")
			return s.age_ms;
		if (!(s.fresh_us > 0))
			return undefined;
		return Math.max(0, m.now_us + (m.daemon === "agent" ? s.clock_skew_us : 0) - s.fresh_us) / 1000;
	}

	function showAge(m) {
		const ms = ageMs(m);
		if (!age.svg.isConnected)
			$("chart").insertBefore(age.svg, $("chart").lastElementChild);
		draw(age, ms);
		put($("chart-title"), AGES[m.daemon] || "");
		put($("chart-now"), known(ms) ? millis(ms) + " ago" : UNKNOWN);
		put($("chart-most"), known(age.most) ? "at most " + millis(age.most) : "");
	}

	/* ---- state and progress ---- */

	/* "for 3 min, since 09:12:41": both moments are of the daemon's clock. */
	function since(us, nowUs) {
		return us > 0 ? "for " + span((nowUs - us) / 1e6) + ", since " + when(us) : "";
	}

	let steps = []; // [ms, progress] while it grows

	function remaining(progress) {
		const now = performance.now(), last = steps[steps.length - 1];
		if (last && progress < last[1])
			steps = [];
		steps.push([now, progress]);
		steps = steps.slice(-30);
		const [at, from] = steps[0];
		return progress > from && now > at ? (1 - progress) * (now - at) / (progress - from) / 1000 : NaN;
	}

	function showProgress(s) {
		const grows = known(s.progress) && s.progress < 1 && gradeOf(s) === "busy" && s.state !== "lagging";
		$("progress").hidden = !grows;
		if (!grows) {
			steps = [];
			return;
		}
		const left = remaining(s.progress);
		$("bar").value = s.progress;
		put($("progress-text"), Math.floor(100 * s.progress) + " %" + (known(left) ? ", about " + span(left) + " left" : ""));
	}

	let said = "";

	/* A reason that counts is read aloud once, not each second. */
	function say(state, text) {
		const what = state + text.replace(/[\d.]+/g, "0");
		if (what !== said)
			put($("say"), state + ". " + text);
		said = what;
	}

	function paint(now, state, reason, remedy) {
		$("state").className = "card " + now;
		put($("sign"), SIGNS[now]);
		put($("word"), state);
		put($("reason"), reason);
		put($("remedy"), remedy);
		$("icon").href = "data:image/svg+xml," + encodeURIComponent("<svg xmlns='" + SVG + "' viewBox='0 0 8 8'>" +
			"<circle cx='4' cy='4' r='4' fill='" + COLOURS[now] + "'/>" + "<" + "/svg>"); // embed allows no end tag here
		say(state, reason + " " + remedy);
	}

	function showState(m) {
		const s = m.status, now = gradeOf(s);
		paint(now, s.state, s.reason || MEANINGS[s.state] || "", s.remedy || "");
		put($("since"), since(s.since_us, m.now_us));
		put($("code"), now !== "good" && s.reason_code ? "Code of the reason: " + s.reason_code : "");
		put($("daemon"), m.daemon + " "); // or a screen reader joins it with the name
		put($("name"), s.name || "");
		put($("version"), m.version + ", up " + span(s.uptime_s));
		document.title = plain(SIGNS[now] + " " + s.state + " – " + m.daemon + " " + (s.name || "keywake"));
		showProgress(s);
	}

	/* ---- keys in quarantine: their names are told only over a unix socket or with a secret ---- */

	function showQuarantine(s) {
		const keys = s.quarantine || [];
		$("quarantine-section").hidden = !(s.quarantined > 0);
		$("quarantine").hidden = keys.length === 0;
		$("quarantine").replaceChildren(...keys.map((k) => {
			const row = make("li");
			row.append(make("bdi", "", "db " + k.database + ": " + (k.key || '""')), make("span", "", k.reason));
			return row;
		}));
		put($("quarantine-note"), !s.quarantine ? "Set http.secret_file to see their names here. keywakectl status has them, too."
			: s.quarantined > keys.length ? count(s.quarantined - keys.length) + " more" : "");
	}

	/* ---- agents ---- */

	const agents = new Map();

	function stateText(cell, state, now) {
		if (cell.dataset.state === state + now)
			return;
		cell.dataset.state = state + now;
		cell.className = "state " + now;
		cell.replaceChildren(make("span", "sign", SIGNS[now], {"aria-hidden": "true"}), " " + plain(state));
	}

	function agentRow(a) {
		const entry = {row: make("tr", "", undefined, {role: "row"}), chart: chart("Lag of " + plain(a.name))};
		const cell = (name, className, label) => {
			entry[name] = make("td", className, undefined, {role: "cell", ...(label && {"data-label": label})});
			return entry[name];
		};
		const name = make("th", "", undefined, {role: "rowheader", scope: "row"});
		name.append(make("bdi", "", a.name));
		entry.row.append(name, cell("state", "state"), cell("since", "quiet", "For"), cell("lag", "number", "Lag"), cell("line", "chart"),
			cell("bytes", "number", "Read"), cell("carrier", "", "Carrier"), cell("peer", "", "From"));
		entry.line.append(entry.chart.svg);
		agents.set(a.id, entry);
		return entry;
	}

	/* Those in trouble first. */
	function before(a, b) {
		return ORDER[gradeOfAgent(a)] - ORDER[gradeOfAgent(b)] || a.name.localeCompare(b.name) || a.id - b.id;
	}

	function placeAgent(a, i, nowUs) {
		const entry = agents.get(a.id) || agentRow(a), there = $("agents").children[i];
		if (there !== entry.row)
			$("agents").insertBefore(entry.row, there || null);
		stateText(entry.state, a.state, gradeOfAgent(a));
		put(entry.since, known(a.since_us) ? span((nowUs - a.since_us) / 1e6) + ", since " + when(a.since_us) : UNKNOWN);
		put(entry.lag, millis(a.lag_ms));
		put(entry.bytes, bytes(a.bytes));
		put(entry.carrier, a.carrier + (a.device ? ", " + a.device : ""));
		put(entry.peer, a.peer);
		draw(entry.chart, a.lag_ms);
	}

	function showAgents(m) {
		const bad = m.agents.filter((a) => gradeOfAgent(a) !== "good").length;
		$("agents-section").hidden = m.daemon !== "proxy";
		drop(new Set(m.agents.map((a) => a.id)), agents);
		m.agents.sort(before).forEach((a, i) => placeAgent(a, i, m.now_us));
		put($("agents-note"), m.agents.length === 0 ? "None is connected."
			: count(m.agents.length) + " connected, " + (bad ? count(bad) + " not well." : "all well."));
		$("agents").parentElement.hidden = m.agents.length === 0;
	}

	/* ---- last changes ---- */

	function when(us) {
		const t = new Date(us / 1000), two = (n) => String(n).padStart(2, "0");
		const day = t.toDateString() === new Date().toDateString() ? "" : two(t.getMonth() + 1) + "-" + two(t.getDate()) + " ";
		return day + two(t.getHours()) + ":" + two(t.getMinutes()) + ":" + two(t.getSeconds());
	}

	let told = "";

	function showTransitions(m) {
		const text = JSON.stringify(m.transitions) + new Date().toDateString();
		if (text === told)
			return;
		told = text;
		$("events").replaceChildren(...m.transitions.map((t, i) => {
			const row = make("li"), time = make("time", "", when(t.at_us)), state = make("span");
			time.dateTime = new Date(t.at_us / 1000).toISOString();
			stateText(state, t.state, grade(t.state));
			if (i > 0)
				state.append(make("span", "quiet", " for " + millis((m.transitions[i - 1].at_us - t.at_us) / 1000)));
			row.append(time, state, make("span", "", t.reason || ""));
			return row;
		}));
	}

	/* ---- the stream ---- */

	let heard = performance.now(), last = "", source;

	function connection(ok, text) {
		document.body.classList.toggle("stale", !ok);
		$("connection").className = ok ? "good" : "bad";
		put($("connection").firstElementChild, ok ? "●" : "▲");
		put($("connection-text"), text);
	}

	/* What was heard last is no longer known to be true. */
	function silence(text, remedy) {
		connection(false, text);
		$("progress").hidden = true;
		paint("bad", "no answer", text + ". " + (last ? "What was heard last: " + last + "." : "Nothing was heard yet."), remedy);
		put($("code"), "");
		put($("since"), "");
		document.title = "▲ no answer – keywake";
	}

	function show(m) {
		heard = performance.now();
		last = m.status.state;
		connection(true, "Up to date");
		showState(m);
		showAge(m);
		showFigures(m);
		showQuarantine(m.status);
		showAgents(m);
		showTransitions(m);
	}

	function listen() {
		source = new EventSource(location.origin + "/events");
		source.onmessage = (event) => show(JSON.parse(event.data));
		source.onerror = () => {
			if (source.readyState !== EventSource.CLOSED)
				return silence("The daemon does not answer", "Look whether it runs: systemctl status, then its log.");
			silence("The daemon refuses this page", "Close other pages of it, or reload this one if its secret has changed.");
			setTimeout(listen, AGAIN_MS);
		};
	}

	setInterval(() => {
		const seconds = (performance.now() - heard) / 1000;
		if (source.readyState === EventSource.OPEN && 1000 * seconds > SILENT_MS)
			silence("The daemon is silent for " + span(seconds), "Look whether it hangs: systemctl status, then its log.");
	}, 250);
	listen();
})();
