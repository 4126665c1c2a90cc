//! The layers of spec 12: later wins, each value knows where it comes from, and whatever is
//! wrong is said with its place, its key and what is allowed.

mod hostile;
mod standard;

use std::fs;

use tetrarch_core::time::Millis;

use super::keys::KEYS;
use super::source::ValueSource;
use super::*;
use crate::CliResult;
use crate::options::OutputFormat;

fn global() -> GlobalArgs {
    GlobalArgs {
        config: None,
        data_dir: None,
        url: None,
        credentials: None,
        tls_ca: None,
        operator_key: None,
        human: None,
        output: OutputFormat::Table,
        log: None,
    }
}

/// A folder with configuration files and an environment.
struct Stage {
    dir: tempfile::TempDir,
    places: ConfigSources,
    global: GlobalArgs,
}

impl Stage {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let places = ConfigSources { files: Vec::new(), environment: Vec::new() };
        Self { dir, places, global: global() }
    }

    fn file(mut self, name: &str, text: &str) -> Self {
        let path = self.dir.path().join(name);
        fs::write(&path, text).unwrap();
        self.places.files.push((path, true));
        self
    }

    fn variable(mut self, name: &str, value: &str) -> Self {
        self.places.environment.push((name.into(), value.into()));
        self
    }

    fn read(&self) -> CliResult<Settings> {
        Settings::read(&self.places, &self.global)
    }

    fn config(&self) -> Config {
        Config::of(self.read().unwrap()).unwrap()
    }

    fn refused(&self) -> String {
        let error = self.read().unwrap_err();
        assert_eq!(error.code, crate::exit::Code::Usage, "{error}");
        error.to_string().replace(&format!("{}/", self.dir.path().display()), "")
    }
}

#[test]
fn keys_outside_of_the_data_directory_are_hidden_from_programs() {
    let text = "[bus]\noperator_key = '/k/op.nk'\ntls_cert = '/k/c.pem'\ntls_key = '/k/c.key'";
    let hidden = Stage::new().file("t.toml", text).config().host.containment.hidden;
    let are_keys = |it: &[PathBuf]| it == [PathBuf::from("/k/op.nk"), "/k/c.key".into()];
    assert!(are_keys(&hidden[1..]), "{hidden:?}");
}

#[test]
fn window_not_longer_than_freezing_is_refused() {
    let settings = Stage::new().file("t.toml", "[liveness]\nwindow = '100ms'").read().unwrap();
    for (ms, good) in [(0, true), (99, true), (100, false), (5000, false)] {
        let checked = check_freezing(&settings, Duration::from_millis(ms));
        assert_eq!(checked.is_ok(), good, "{ms}");
        if let Err(error) = checked {
            let said = error.to_string();
            assert!(
                said.contains("liveness.window = 100ms") && said.contains("t.toml:2"),
                "{said}"
            );
        }
    }
}

#[test]
fn liveness_and_deadlines_are_configurable() {
    let config = Stage::new().config();
    assert_eq!(config.liveness.register_deadline, Duration::from_secs(30));
    assert_eq!(config.liveness.mass, MassPolicy::default());
    assert_eq!(config.policy.deadlines, Deadlines::default());
    let text = "[liveness]\nwindow = '1s'\nmass_silence = 0.5\nreplacements_per_second = 7\n\
                [runs]\ndrain = '1s'\nkill_grace = '2s'\n[deadlines]\nspawning = '3s'\n\
                awaiting_input = '6s'\nblocked = '4s'\ncompacting = '5s'";
    let config = Stage::new().file("t.toml", text).config();
    assert_eq!(config.liveness.register_deadline, Duration::from_secs(6), "six windows");
    assert_eq!(config.liveness.mass, MassPolicy { share: 500, per_second: 7 });
    let seconds = Millis::from_secs;
    let stop = StopWithin { drain: seconds(1), kill_grace: seconds(2) };
    let (spawning, awaiting_input) = (seconds(3), seconds(6));
    let (blocked, compacting) = (seconds(4), seconds(5));
    let set = Deadlines { spawning, awaiting_input, blocked, compacting, stop };
    assert_eq!(config.policy.deadlines, set);
    let config = Stage::new().variable("TETRARCH_LIVENESS_REGISTER_DEADLINE", "9s").config();
    assert_eq!(config.liveness.register_deadline, Duration::from_secs(9));
}

#[test]
fn run_bounds_are_configurable() {
    let text = "[runs]\nturn_timeout = '1s'\nartifact_max = '1KiB'";
    let runs = Stage::new().file("t.toml", text).config().runs;
    let least = (Some(Millis::from_secs(1)), 1 << 10);
    assert_eq!((runs.turn_timeout, runs.artifact_max), least);
}

#[test]
fn absent_configuration_gives_the_defaults() {
    let config = Stage::new().variable("HOME", "/home/ada").config();
    assert_eq!(config.bus.data_dir, PathBuf::from("/home/ada/.local/share/tetrarch"));
    assert_eq!(config.bus.url, None);
    assert_eq!((config.bus.port, config.bus.replicas), (0, 1));
    assert_eq!(config.bus.durability, Durability::Power);
    assert_eq!(config.liveness.window, Duration::from_secs(5));
    assert_eq!((config.policy.max_depth, config.policy.max_children), (3, 3));
    assert_eq!(config.mode, Mode::Orchestrator);
    assert_eq!((config.host.capacity, config.host.labels.len()), (None, 0));
    let hidden = vec![config.bus.data_dir.clone()];
    let processes_max = Some(4096);
    let expected = Containment { hidden, processes_max, ..Containment::default() };
    assert_eq!(config.host.containment, expected);
    assert_eq!(config.runs.output_limit, 16 << 20);
    assert_eq!((config.runs.turn_timeout, config.runs.artifact_max), (None, 64 << 20));
    assert_eq!(config.retention.go_ttl_secs, 3);
    assert_eq!((config.telemetry.otlp_endpoint, config.telemetry.log), (None, None));
    assert!(config.settings.all().iter().all(|setting| setting.from == ValueSource::Default));
}

#[test]
fn every_default_is_a_permitted_value() {
    for key in KEYS {
        if let KeyDefault::Is(text) = key.default {
            let value = key.kind.read_text(text);
            assert!(value.is_some_and(|value| !value.is_null()), "{}", key.name);
        }
    }
}

fn overseer_follows(overseer: &Policy) {
    let appliers: Vec<String> = overseer.plan_appliers.iter().map(ToString::to_string).collect();
    assert_eq!(appliers, ["PO-ci", "human:ada"]);
    let reach = &overseer.reach;
    assert!(reach.cross_agent && reach.all, "{reach:?}");
    assert_eq!(reach.agents.iter().map(ToString::to_string).collect::<Vec<_>>(), ["PO-ci"]);
    assert!(overseer.proposes && !Stage::new().config().policy.proposes, "quiet by default");
}

#[test]
fn every_typed_value_follows_its_key() {
    let text = r#"
        [bus]
        url = "nats://a:1,tls://b:2"
        data_dir = "fleet"
        port = 4222
        durability = "process"
        replicas = 3
        api_prefix = "JS.fleet.API"
        credentials = "/keys/me.creds"
        [liveness]
        window = "50ms"
        [limits]
        max_depth = 1
        max_children = 1
        mode = "tight"
        [overseer]
        plan_appliers = ["PO-ci", "human:ada"]
        allow_cross_agent = true
        allow_agents = ["PO-ci", "*"]
        propose = true
        [host]
        name = "build-2"
        labels = { zone = "b" }
        capacity = 16
        workspace_dir = "/work"
        isolation = "required"
        writable = ["/var/cache/agents"]
        [runs]
        output_limit = "1MiB"
        network = true
        memory_max = "2GiB"
        processes_max = 100
        cpus_max = 2
        [telemetry]
        content = true
        otlp_endpoint = "http://collector:4318"
        log = "info,tetrarch_bus=debug"
    "#;
    let stage = Stage::new().file("all.toml", text);
    let config = stage.config();
    assert_eq!(config.bus.url.as_deref(), Some("nats://a:1,tls://b:2"));
    assert_eq!(config.bus.data_dir, stage.dir.path().join("fleet"));
    assert_eq!((config.bus.port, config.bus.replicas), (4222, 3));
    assert_eq!(config.bus.durability, Durability::Process);
    assert_eq!(config.bus.api_prefix.as_deref(), Some("JS.fleet.API"));
    assert_eq!(config.bus.credentials, Some(PathBuf::from("/keys/me.creds")));
    assert_eq!(config.liveness.window, Duration::from_millis(50));
    assert_eq!((config.policy.max_depth, config.policy.max_children), (1, 1));
    assert_eq!(config.mode, Mode::Tight);
    overseer_follows(&config.policy);
    assert_eq!(config.host.name.as_deref(), Some("build-2"));
    assert_eq!(config.host.labels, [("zone".to_owned(), "b".to_owned())]);
    assert_eq!(config.host.capacity, Some(16));
    assert_eq!(config.host.workspace_dir, Some(PathBuf::from("/work")));
    let containment = Containment {
        required: true,
        network: true,
        writable: vec![PathBuf::from("/var/cache/agents")],
        hidden: vec![stage.dir.path().join("fleet"), PathBuf::from("/keys/me.creds")],
        memory_max: Some(2 << 30),
        processes_max: Some(100),
        cpus_max: Some(2),
        launcher: Launcher::default(),
    };
    assert_eq!(config.host.containment, containment);
    assert_eq!(config.runs.output_limit, 1 << 20);
    assert_eq!(config.retention.go_ttl_secs, 15, "a cluster's elections take longer");
    assert_eq!(config.telemetry.otlp_endpoint.as_deref(), Some("http://collector:4318"));
    assert_eq!(config.telemetry.log.as_deref(), Some("info,tetrarch_bus=debug"));
    assert!(config.telemetry.content && !Stage::new().config().telemetry.content);
}

#[test]
fn later_layer_wins_and_is_named() {
    let mut stage = Stage::new()
        .file("etc.toml", "[liveness]\nwindow = '1s'\n[limits]\nmax_depth = 2\n[bus]\nport = 1\n")
        .file("here.toml", "[limits]\n\n# deeper\nmax_depth = 1\nmode = 'solo'\n")
        .variable("TETRARCH_LIMITS_MODE", "tight")
        .variable("TETRARCH_BUS_URL", "nats://a:1")
        .variable("TETRARCH_OVERSEER_BACKOFF", "base=3m,max=4m")
        .variable("TETRARCH_HOST_LABELS", "zone=b,disk=fast")
        .variable("TETRARCH_OVERSEER_ALLOW_AGENTS", "PO-a,PO-b")
        .variable("TETRARCH_AGENT", "W:01ARZ3NDEKTSV4RRFFQ69G5FAV")
        .variable("PATH", "/bin");
    stage.global.url = Some("nats://b:2".to_owned());
    let settings = stage.read().unwrap();
    let from = |name: &str| {
        let setting = settings.named(name).unwrap();
        let from = setting.from.to_string();
        (setting.shown(), from.rsplit('/').next().unwrap().to_owned())
    };
    let pair = |value: &str, from: &str| (value.to_owned(), from.to_owned());
    assert_eq!(from("liveness.window"), pair("1s", "etc.toml:2"));
    assert_eq!(from("limits.max_depth"), pair("1", "here.toml:4"));
    assert_eq!(from("bus.port"), pair("1", "etc.toml:6"));
    assert_eq!(from("limits.mode"), pair("tight", "TETRARCH_LIMITS_MODE"));
    assert_eq!(from("bus.url"), pair("nats://b:2", "--url"));
    assert_eq!(from("overseer.backoff"), pair("base=3m,max=4m", "TETRARCH_OVERSEER_BACKOFF"));
    assert_eq!(from("host.labels"), pair("disk=fast,zone=b", "TETRARCH_HOST_LABELS"));
    assert_eq!(from("overseer.allow_agents"), pair("PO-a,PO-b", "TETRARCH_OVERSEER_ALLOW_AGENTS"));
    assert_eq!(from("liveness.register_deadline"), pair("6s", "default"));
    assert_eq!(from("overseer.enabled"), pair("true", "default"));
    assert_eq!(settings.files().len(), 2);
    let idle = settings.advice().join("\n");
    assert!(
        idle.contains("overseer.allow_agents is set, but overseer.allow_cross_agent"),
        "{idle}"
    );
}

#[test]
fn nested_tables_equal_dotted_keys() {
    for text in [
        "[overseer]\nbackoff = { base = '1m', max = '5m' }",
        "[overseer.backoff]\nbase = '1m'\nmax = '5m'",
        "overseer.backoff.base = '1m'\noverseer.backoff.max = '5m'",
    ] {
        let settings = Stage::new().file("t.toml", text).read().unwrap();
        let backoff = settings.named("overseer.backoff").unwrap();
        assert_eq!(backoff.shown(), "base=1m,max=5m", "{text}");
    }
}

#[test]
fn invalid_file_value_is_named_with_its_line() {
    for (text, expected) in [
        ("\n[bus]\nurll = 'nats://a:1'", "t.toml:3: unknown key bus.urll; allowed here: url, man"),
        ("[buss]\n", "t.toml:1: unknown key buss; allowed here: bus, liveness, limits, overseer"),
        ("[overseer.backoff]\nbase = '1s'", "t.toml:1: overseer.backoff = "),
        ("[overseer]\nbackoff = '1s'", "overseer.backoff = '1s' is not allowed; allowed: { base ="),
        ("[overseer]\nbackoff = { base = '2m', max = '1m' }", "is not allowed; allowed: { base = "),
        ("[overseer]\nbackoff = { base = '2m', max = '3m', by = 2 }", "allowed: { base = \"2m\""),
        ("bus = 3", "t.toml:1: bus is a table, not a value; its keys: url, "),
        (
            "[liveness]\nwindow = \"5 s\"",
            "t.toml:2: liveness.window = \"5 s\" is not allowed; allowed: 50ms to 1m, as whole",
        ),
        ("[liveness]\nwindow = '49ms'", "liveness.window = '49ms' is not allowed"),
        ("[liveness]\nwindow = '61s'", "liveness.window = '61s' is not allowed"),
        ("[liveness]\nwindow = 5", "liveness.window = 5 is not allowed"),
        ("[limits]\nmax_depth = 0", "allowed: a whole number from 1 to 3"),
        ("[limits]\nmax_depth = 4", "limits.max_depth = 4 is not allowed"),
        ("[limits]\nmax_children = 4", "allowed: a whole number from 1 to 3"),
        ("[limits]\nmax_children = -1", "limits.max_children = -1 is not allowed"),
        ("[limits]\nmode = 'Solo'", "allowed: solo, tight, orchestrator"),
        ("[bus]\nreplicas = 2", "allowed: 1, 3, 5"),
        ("[bus]\nurl = 'a:4222'", "allowed: nats://<host>:<port> or tls://"),
        ("[bus]\nport = 65536", "allowed: a whole number from 0 to 65535"),
        ("[bus]\nmanaged = 'yes'", "allowed: true, false"),
        ("[runs]\nartifact_max = '64MB'", "allowed: 1KiB to 1TiB, as a whole number with B"),
        (
            "[runs]\nartifact_max = '1023B'",
            "runs.artifact_max = '1023B' is not allowed; allowed: 1KiB",
        ),
        ("[runs]\nturn_timeout = '999ms'", "runs.turn_timeout = '999ms' is not allowed; allowed: "),
        ("[retention]\ngo_ttl = '1500ms'", "allowed: 1s to 3600s in whole seconds"),
        ("[liveness]\nmass_silence = 1.5", "allowed: a number above 0 and up to 1"),
        ("[planner]\nkey_from = 'sk-1'", "allowed: env:NAME, credential:NAME"),
        ("[telemetry]\notlp_endpoint = 'grpc://c'", "allowed: http://<host>:<port> or https://"),
        ("[telemetry]\nlog = 'a=loud'", "allowed: off, error, warn"),
        ("[telemetry]\nprometheus_listen = '7878'", "allowed: <address>:<port>"),
        ("[host]\nname = 'a b'", "allowed: a name of A-Z"),
        ("[host]\nlabels = { zone = 1 }", "allowed: names with a value each"),
        ("[overseer]\nallow_agents = 'PO-a'", "allowed: a list of names"),
        ("[bus]\ncredentials = ''", "allowed: a path"),
        ("[people]\napprovals = 0", "allowed: a whole number from 1 to 10"),
        ("[people]\napprovals = 11", "allowed: a whole number from 1 to 10"),
        (
            "[people]\napprovals_of = { shop = \"0\" }",
            "shop is not a project; allowed: <project>=<1 to 10>",
        ),
        ("[people]\napprovals_of = { shop = \"two\" }", "shop is not a project"),
        ("[people]\napprovers = ['a b']", "people.approvers"),
        (
            "[people]\napprovals = 2\napprovers = ['ada', 'ada']",
            "as many people as required approvals",
        ),
        (
            "[people]\napprovals_of = { shop = \"3\" }\napprovers = ['ada', 'ben']",
            "as many people as required approvals",
        ),
        ("[bus]\nport = 1\nport = 2", "t.toml:3: invalid TOML: "),
        ("[bus\n", "t.toml:1: invalid TOML: "),
    ] {
        let said = Stage::new().file("t.toml", text).refused();
        assert!(said.contains(expected), "{text}\n  said:     {said}\n  expected: {expected}");
    }
}

#[test]
fn invalid_variable_or_option_is_named() {
    let said = Stage::new().variable("TETRARCH_LIVENES_WINDOW", "5s").refused();
    assert!(said.contains("TETRARCH_LIVENES_WINDOW: unknown variable"), "{said}");
    let said = Stage::new().variable("TETRARCH_LIVENESS_WINDOW", "5").refused();
    assert!(said.contains("TETRARCH_LIVENESS_WINDOW: liveness.window = \"5\" is not"), "{said}");
    let mut stage = Stage::new();
    stage.global.url = Some("localhost".to_owned());
    let said = stage.refused();
    assert!(said.contains("--url: bus.url = \"localhost\" is not allowed"), "{said}");
    let mut stage = Stage::new();
    stage.places.files.push((stage.dir.path().join("none.toml"), true));
    let said = stage.refused();
    assert!(said.contains("none.toml: No such"), "{said}");
    stage.places.files[0].1 = false;
    stage.read().unwrap();
}

#[test]
fn contradicting_values_are_refused_naming_both() {
    for (text, expected) in [
        (
            "[liveness]\nwindow = '10s'\nregister_deadline = '9s'",
            "liveness.window = 10s (t.toml:2) and liveness.register_deadline = 9s (t.toml:3)",
        ),
        ("[bus]\ntls_cert = 'c.pem'", "c.pem (t.toml:2) and bus.tls_key = - (default)"),
        ("[bus]\nmanaged = false", "bus.managed = false (t.toml:2) and bus.url = - (default)"),
        ("[bus]\nreplicas = 3", "bus.replicas = 3 (t.toml:2) and bus.url = - (default)"),
        (
            "[overseer]\nplan_appliers = ['PO-ci', 'ada']",
            "overseer.plan_appliers = PO-ci,ada (t.toml:2): \"ada\"",
        ),
        (
            "[overseer]\nallow_agents = ['PO-ci', 'ada']",
            "overseer.allow_agents = PO-ci,ada (t.toml:2): \"ada\"",
        ),
        (
            "[planner]\nenabled = true\nprovider = 'openai'\nmodel = 'm'\nbase_url = 'http://far/v1'\n\
             key_from = 'env:K'",
            "the address goes beyond this machine without TLS, and the key is sent there",
        ),
    ] {
        let said = Stage::new().file("t.toml", text).refused();
        assert!(said.contains(expected), "{text}: {said}");
    }
}

#[test]
fn short_windows_in_a_cluster_give_a_warning() {
    let cluster = "[bus]\nurl = 'nats://a:1'\nreplicas = 3\n[liveness]\nwindow = ";
    let advice = |window: &str| {
        let stage = Stage::new().file("t.toml", &format!("{cluster}'{window}'"));
        stage.read().unwrap().advice().join("\n")
    };
    assert!(advice("5s").contains("elections"));
    assert_eq!(advice("6s"), "");
}

#[test]
fn directories_follow_the_xdg_variables() {
    let stage = Stage::new().variable("XDG_DATA_HOME", "/data").variable("HOME", "/home/ada");
    assert_eq!(stage.config().bus.data_dir, PathBuf::from("/data/tetrarch"));
    assert_eq!(Stage::new().config().bus.data_dir, PathBuf::from("/var/lib/tetrarch"));
}
