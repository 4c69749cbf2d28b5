//! From nothing to an answer in each language.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use acceptance::Upstream;

use tool_host::Precompiler;

use super::{Desk, cargo_folder, compile_cache, run};

/// Makes both examples, runs their own tests, builds and calls them; then one with functions of its own. A
/// build in Python or JavaScript, and the compilation of its interpreter, take half a minute of a core each:
/// so the example that makes requests has the other tools of these tests beside its own from the start.
async fn every_step(language: &str, test: impl Fn(&Path) -> Command) {
    // Such a component is its interpreter and little else: functions are compiled once for all of a language.
    let precompiler = (language != "rust").then(|| Precompiler::new(compile_cache(), false).unwrap());
    let desk = Desk { precompiler, ..Desk::new() };
    greets_without_a_grant(&desk, language, &test);
    looks_up_with_a_secret(&desk, language, &test).await;
    has_the_docs_of_its_wit(&desk, language);
}

const ASKING_CASES: &str = "
[[case]]
name = \"seats somebody where they want\"
tool = \"seat\"
arguments = { flight = \"HA 1\" }
expect.json = { seat = \"7A\" }
[[case.answer]]
question = \"Which row\"
value = 7
[[case.answer]]
value = true
";

const PYTHON_ASKS: &str = "

from agent_tool import ask


@tool()
def seat(flight: str) -> dict:
    \"\"\"Chooses a seat. Use it for every flight.\"\"\"
    row = ask.ask(f\"Which row on flight {flight}?\", int)
    return {\"seat\": f\"{row}{'A' if ask.ask('By the window?', bool) else 'C'}\"}
";

const PYTHON_ASKS_TEST: &str = "import unittest

import tools
from agent_tool import Component, Failure, ask, http, log, progress
from agent_tool.tools import Tools, tool


class Seats(unittest.TestCase):
    def test_somebody_chooses(self):
        ask.answers[:], ask.asked[:] = [7, False], []
        self.assertEqual(tools.seat(\"HA 1\"), {\"seat\": \"7C\"})
        self.assertEqual(ask.asked, [\"Which row on flight HA 1?\", \"By the window?\"])

    def test_nobody_answers(self):
        with self.assertRaises(Failure) as raised:
            tools.seat(\"HA 2\")
        self.assertEqual(raised.exception.code, \"rejected\")

    def test_a_tool_may_say_that_it_never_asks(self):
        def look(flight: str) -> str:
            \"\"\"Looks up when a flight leaves.\"\"\"
        tool(\"read-only\", \"never-asks\")(look)
        self.assertEqual(Tools.pop(\"look\").hints, [(\"read-only\", \"true\"), (\"asks\", \"false\")])

    def test_a_whole_number_may_have_a_point(self):
        def rows(count: int | None) -> list:
            \"\"\"Counts rows.\"\"\"
            return list(range(count))
        tool()(rows)
        self.assertEqual(Tools.pop(\"rows\").call('{\"count\": 2.0}'), \"[0, 1]\")

        def pick(counts: list[int] | None) -> list:
            \"\"\"Picks parts.\"\"\"
            return counts
        tool()(pick)
        self.assertEqual(Tools.pop(\"pick\").call('{\"counts\": [2.0, 3]}'), \"[2, 3]\")

    def test_the_log_says_where_a_number_that_json_cannot_carry_comes_from(self):
        def mean() -> float:
            \"\"\"Takes the mean of nothing.\"\"\"
            return float(\"nan\")
        tool()(mean)
        with self.assertRaises(Exception) as raised:
            Component().call(\"mean\", \"{}\")
        Tools.pop(\"mean\")
        self.assertEqual(raised.exception.value.code, \"internal\")
        self.assertIn(\"not JSON compliant\", log.lines.pop()[1])

    def test_half_of_a_pair_of_surrogates_crashes_nothing(self):
        half = \"\\ud83d\"

        def blend(fails: bool) -> str:
            \"\"\"Says what a server's JSON may hold.\"\"\"
            log.info(half, field=half)
            if fails:
                raise Failure(\"odd\", half, field=half)
            return half
        tool()(blend)
        self.assertEqual(Component().call(\"blend\", '{\"fails\": false}').value, '\"?\"')
        self.assertEqual(log.lines.pop(), (\"info\", \"?\", [(\"field\", \"?\")]))
        with self.assertRaises(Exception) as raised:
            Component().call(\"blend\", '{\"fails\": true}')
        Tools.pop(\"blend\")
        told = raised.exception.value
        self.assertEqual((told.message, told.meta), (\"?\", [(\"field\", \"?\")]))
        progress.report(half)
        self.assertEqual(progress.reports.pop(), (\"?\", None))
        ask.answers[:], ask.asked[:] = [half], []
        ask.ask(half)
        self.assertEqual(ask.asked, [\"?\"])

    def test_a_server_may_say_anything_of_when_to_ask_again(self):
        for after, meta in [(\"2\", [(\"retry-after-ms\", \"2000\")]), (\"²\", []), (\"9\" * 5000, [])]:
            with self.assertRaises(Failure) as raised:
                http.Response(503, {\"retry-after\": after}).check()
            self.assertEqual((raised.exception.code, raised.exception.meta), (\"unavailable\", meta))
        self.assertEqual(Failure.unavailable(\"busy\", 0.5 * 1000).meta, [(\"retry-after-ms\", \"500\")])
";

const JAVASCRIPT_ASKS: &str = "
import { ask } from './agent-tool/ask.js';

export function seat({ flight }) {
  const row = ask(`Which row on flight ${flight}?`, { type: 'integer' });
  return { seat: `${row}${ask('By the window?', { type: 'boolean' }) ? 'A' : 'C'}` };
}

defineTool({
  name: 'seat',
  description: 'Chooses a seat. Use it for every flight.',
  input: { flight: { type: 'string', description: 'The flight' } },
  run: seat,
});
";

const JAVASCRIPT_ASKS_TEST: &str = "import assert from 'node:assert/strict';
import test from 'node:test';
import { getJson } from './agent-tool/http.js';
import { defineTool, Failure, tool } from './agent-tool/index.js';
import { seat } from './tools.js';

test('a tool may say that it never asks', () => {
  defineTool({ name: 'look', description: 'Looks.', hints: ['read-only', 'never-asks'], run: () => null });
  const { hints } = tool.describe().find(({ name }) => name === 'look');
  assert.deepEqual(hints, [['read-only', 'true'], ['asks', 'false']]);
});

test('an answer that breaks off is no defect of the tool', async () => {
  const text = () => Promise.reject(new TypeError('cut'));
  globalThis.fetch = async () => ({ status: 200, text });
  await assert.rejects(getJson('https://parts.example.org/'), { code: 'unavailable' });
});

test('a failure has texts only, and whole milliseconds', async () => {
  assert.deepEqual(Failure.unavailable('busy', 1000 / 3).meta, [['retry-after-ms', '334']]);
  assert.deepEqual(Failure.unavailable('busy').meta, []);
  defineTool({ name: 'fail', description: 'Fails.', run() { throw new Failure(404, 'no such page'); } });
  await assert.rejects(tool.call('fail', '{}'), { code: '404', message: 'no such page', meta: [] });
});

test('somebody chooses', () => {
  host.answers.push(7, false);
  assert.deepEqual(seat({ flight: 'HA 1' }), { seat: '7C' });
  assert.deepEqual(host.asked, ['Which row on flight HA 1?', 'By the window?']);
  assert.throws(() => seat({ flight: 'HA 2' }), { code: 'rejected' });
});
";

/// Adds a tool that asks, with its own test and its case, to a project, and in Python one that sends. False
/// for Rust's, whose components that ask are tested with `agent-tool test` elsewhere.
fn gets_more_tools(folder: &Path, language: &str) -> bool {
    let append = |file: &str, text: &str| {
        let whole = fs::read_to_string(folder.join(file)).unwrap() + text;
        fs::write(folder.join(file), whole).unwrap();
    };
    match language {
        "python" => {
            append("tools.py", PYTHON_ASKS);
            append("tools.py", PYTHON_ORDER);
            fs::write(folder.join("test_seats.py"), PYTHON_ASKS_TEST).unwrap();
        }
        "js" => {
            append("tools.js", JAVASCRIPT_ASKS);
            fs::write(folder.join("seats.test.js"), JAVASCRIPT_ASKS_TEST).unwrap();
        }
        _ => return false,
    }
    append("cases.toml", ASKING_CASES);
    let world = fs::read_to_string(folder.join("wit/world.wit")).unwrap();
    let world = world.replace("    export ", "    include agent:tool/asking@0.1.2;\n    export ");
    fs::write(folder.join("wit/world.wit"), world).unwrap();
    true
}

/// A case whose question nobody answers fails, and says what to add.
fn fails_without_an_answer(desk: &Desk, folder: &Path) {
    let cases = fs::read_to_string(folder.join("cases.toml")).unwrap();
    fs::write(folder.join("cases.toml"), cases.split("[[case.answer]]").next().unwrap()).unwrap();
    let tested = run(&mut desk.command(&["test", "parts", "--no-abuse"]));
    assert!(!tested.succeeded && tested.stdout.contains("add [[case.answer]]"), "{tested:?}");
}

/// `agent-tool test` over the cases that the project came with, and over others if there are.
fn passes_its_own_test(desk: &Desk, project: &str, tool: &str, cases: usize) {
    let tested = run(&mut desk.command(&["test", project]));
    assert!(tested.succeeded, "{tested:?}");
    let verdict = tested.stdout.lines().last().unwrap_or_default();
    let expected = format!("passed: 0 of {cases} cases failed, 0 faults under abuse");
    assert!(verdict.starts_with(&expected), "{tested:?}");
    assert!(tested.stdout.contains(&format!("ok    {tool} under abuse")), "{tested:?}");
}

fn greets_without_a_grant(desk: &Desk, language: &str, test: impl Fn(&Path) -> Command) {
    let folder = desk.new_project("my-greeter", language, "greeting");
    let built = desk.build("my-greeter");
    assert!(built.succeeded && built.stdout.contains("my-greeter.wasm"), "{built:?}");
    assert!(built.stdout.contains("sha256:") && !built.stdout.contains("needs "), "{built:?}");
    let tested = run(&mut test(&folder));
    assert!(tested.succeeded, "{tested:?}");
    let called = run(&mut desk.call(&folder, "my_greeter", r#"{"name": "Ada"}"#));
    assert!(called.succeeded, "{called:?}");
    let answer: serde_json::Value = serde_json::from_str(&called.stdout).unwrap();
    assert_eq!(answer, serde_json::json!({ "text": "Hello, Ada!" }));
    let refused = run(&mut desk.call(&folder, "my_greeter", r#"{"name": " "}"#));
    assert!(
        !refused.succeeded && refused.stdout.starts_with("Error: invalid-arguments: `name` is blank"),
        "{refused:?}"
    );
    passes_its_own_test(desk, "my-greeter", "my_greeter", 2);
}

const SHOP: &str = "package acme:shop@1.0.0;

interface stock {
    /// Looks up how many of a part are in stock. Use it before ordering.
    look-up: func(part: string) -> u32;
}

world guest {
    export stock;
}
";

/// Makes a project without the SDK of the one that greets: its toolchain is there already.
fn has_the_docs_of_its_wit(desk: &Desk, language: &str) {
    let (greeter, folder) = (desk.path().join("my-greeter"), desk.path().join("shop"));
    fs::create_dir_all(folder.join("wit")).unwrap();
    fs::write(folder.join("wit/world.wit"), SHOP).unwrap();
    let write = |file: &str, text: &str| {
        fs::create_dir_all(folder.join(file).parent().unwrap()).unwrap();
        fs::write(folder.join(file), text).unwrap();
    };
    let copy = |file: &str| {
        let text = fs::read_to_string(greeter.join(file)).unwrap();
        write(file, &text.replace("my-greeter", "shop"));
    };
    let keep = |made: &str| symlink(greeter.join(made), folder.join(made)).unwrap();
    match language {
        "rust" => {
            copy("Cargo.lock");
            write("Cargo.toml", RUST_MANIFEST);
            write("src/lib.rs", RUST_SOURCE);
        }
        "python" => {
            copy("pyproject.toml");
            keep(".venv");
            write("app.py", PYTHON_SOURCE);
        }
        _ => {
            copy("package.json");
            copy("build.mjs");
            keep("node_modules");
            write("tools.js", "export const stock = { lookUp: (part) => part.length };\n");
        }
    }
    let built = desk.build("shop");
    assert!(built.succeeded, "{built:?}");
    let component = fs::read(folder.join("shop.wasm")).unwrap();
    let has = |text: &str| component.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(has("package-docs") && has("Looks up how many of a part are in stock."), "{built:?}");
    // JavaScript's carries an interpreter, which takes long to compile, and exports nothing of its own.
    if language != "js" {
        let shown = run(&mut desk.command(&["inspect", "shop/shop.wasm"]));
        assert!(shown.succeeded && shown.stdout.contains("stock_look_up\n"), "{shown:?}");
        // componentize-py exports a function that it calls itself.
        assert!(!shown.stdout.contains("exports_init"), "{shown:?}");
        assert!(
            shown.stdout.contains("Looks up how many of a part are in stock. Use it before"),
            "{shown:?}"
        );
    }
}

const RUST_MANIFEST: &str = "[package]
name = \"shop\"
version = \"0.1.0\"
edition = \"2024\"

[lib]
crate-type = [\"cdylib\"]

[dependencies]
wit-bindgen = { version = \"0.60\", default-features = false, features = [\"macros\", \"realloc\", \"std\"] }

[workspace]

# As in a new project, so that its macros are those that were compiled for that.
[profile.release]
opt-level = \"s\"
lto = true
codegen-units = 1
panic = \"abort\"
strip = true
";

const RUST_SOURCE: &str = "wit_bindgen::generate!({ world: \"guest\" });

struct Shop;

impl exports::acme::shop::stock::Guest for Shop {
    fn look_up(part: String) -> u32 {
        u32::try_from(part.len()).unwrap_or(0)
    }
}

export!(Shop);
";

const PYTHON_SOURCE: &str = "from wit_world import exports


class Stock(exports.Stock):
    def look_up(self, part: str) -> int:
        return len(part)
";

async fn looks_up_with_a_secret(desk: &Desk, language: &str, test: impl Fn(&Path) -> Command) {
    let server =
        Upstream::answering(200, "application/json", r#"{"name": "hinge", "in_stock": 7, "shelf": 3}"#).await;
    let folder = desk.new_project("parts", language, "http");
    if language == "python" {
        // Toolchains are installed for a project; this one has that of the project that greets.
        symlink(desk.path().join("my-greeter/.venv"), folder.join(".venv")).unwrap();
    }
    let asks = gets_more_tools(&folder, language);
    let built = desk.build("parts");
    let needs = built.stdout.lines().find(|line| line.starts_with("needs ")).unwrap_or_default();
    assert!(needs.contains("http") && needs.contains("ask") == asks, "{built:?}");
    let tested = run(&mut test(&folder));
    assert!(tested.succeeded, "{tested:?}");
    // The project's own example of a policy, with the digest that the build printed and the address of this
    // server.
    let digest = built.stdout.lines().find_map(|line| line.strip_prefix("digest")).unwrap().trim();
    let port = server.url("").rsplit(':').next().unwrap().to_owned();
    let host = format!("host = \"127.0.0.1\"\nscheme = \"http\"\nprivate = true\nport = {port}");
    let policy = fs::read_to_string(folder.join("policy.toml")).unwrap();
    let policy = policy
        .replace(&format!("sha256:{}", "0".repeat(64)), digest)
        .replace("https://parts.example.org", &server.url(""))
        .replace("host = \"parts.example.org\"", &host)
        .replace("hosts = [\"parts.example.org\"]", "hosts = [\"127.0.0.1\"]");
    let policy = if asks { policy.replace("limits = ", "ask = true\nlimits = ") } else { policy };
    let policy_file = desk.path().join("policy.toml");
    fs::write(&policy_file, policy).unwrap();
    let mut call = desk.call(&folder, "parts", r#"{"part": "A 12"}"#);
    call.env("TOOLS_POLICY", &policy_file).env("PARTS_KEY", "never-seen-by-the-tool");
    // Elsewhere, because this server answers in the meantime.
    let called = tokio::task::spawn_blocking(move || run(&mut call)).await.unwrap();
    assert!(called.succeeded, "{called:?}");
    let answer: serde_json::Value = serde_json::from_str(&called.stdout).unwrap();
    assert_eq!(answer, serde_json::json!({ "name": "hinge", "in_stock": 7 }));
    let received = server.received();
    assert_eq!(received[0].line, "GET /parts/A%2012");
    assert_eq!(received[0].header("x-api-key"), "never-seen-by-the-tool");
    passes_its_own_test(desk, "parts", "parts", if asks { 3 } else { 2 });
    if asks {
        fails_without_an_answer(desk, &folder);
    }
    if language == "python" {
        tells_why_a_request_with_a_body_is_denied(desk, &folder, &policy_file, &port).await;
    }
}

/// A tool that sends more than the host takes before it says that it refuses.
const PYTHON_ORDER: &str = r#"

@tool("destructive")
def order(url: Annotated[str, "Where to"]) -> dict:
    """Orders parts."""
    try:
        return http.post_json(url, {"parts": "A-100 " * 50000})
    except Failure as failure:
        return {"code": failure.code, "message": failure.message}
"#;

async fn tells_why_a_request_with_a_body_is_denied(desk: &Desk, folder: &Path, policy: &Path, port: &str) {
    let coded = Upstream::answering_coded("gzip", "no matter").await;
    let coded_port = coded.url("").rsplit(':').next().unwrap().to_owned();
    let granted = fs::read_to_string(policy).unwrap();
    let grant = format!(
        "\n[[component.http]]\nhost = \"127.0.0.1\"\nscheme = \"http\"\nprivate = true\nport = {coded_port}\nmethods = [\"POST\"]\n"
    );
    fs::write(policy, granted + &grant).unwrap();
    for (url, code, why) in [
        (format!("http://127.0.0.1:{port}/parts/orders"), "denied", "POST"),
        (format!("http://127.0.0.1:{coded_port}/parts/orders"), "denied", "encoded"),
        (format!("HTTP://127.0.0.1:{coded_port}/parts of cars"), "invalid-arguments", "URL"),
    ] {
        let mut call = desk.call(folder, "order", &format!(r#"{{"url": "{url}"}}"#));
        call.env("TOOLS_POLICY", policy).env("PARTS_KEY", "never-seen-by-the-tool");
        let called = tokio::task::spawn_blocking(move || run(&mut call)).await.unwrap();
        assert!(called.succeeded, "{called:?}");
        let answer: serde_json::Value = serde_json::from_str(&called.stdout).unwrap();
        assert_eq!(answer["code"], code, "{answer}");
        assert!(answer["message"].as_str().unwrap().contains(why), "{answer}");
    }
    assert_eq!(coded.received().len(), 1, "what is denied is not sent again");
}

#[tokio::test]
async fn a_tool_in_rust_goes_from_nothing_to_an_answer() {
    every_step("rust", |folder| {
        let mut cargo = Command::new("cargo");
        cargo.args(["test", "--quiet"]).current_dir(folder).env("CARGO_TARGET_DIR", cargo_folder());
        cargo
    })
    .await;
}

#[tokio::test]
async fn a_tool_in_python_goes_from_nothing_to_an_answer() {
    every_step("python", |folder| {
        let mut python = Command::new(folder.join(".venv/bin/python"));
        python.args(["-B", "-m", "unittest"]).current_dir(folder);
        python
    })
    .await;
}

#[tokio::test]
async fn a_tool_in_javascript_goes_from_nothing_to_an_answer() {
    every_step("js", |folder| {
        let mut npm = Command::new("npm");
        npm.arg("test").current_dir(folder);
        npm
    })
    .await;
}
