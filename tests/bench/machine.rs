//! What a table of absolute times has to say of the machine it comes from.

use std::process::Command;

/// One line for each fact.
pub(crate) async fn facts() -> String {
    let server = tetrarch_tests::server().await;
    let bus = server.control().await;
    let uname = rustix::system::uname();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or("processor of unknown make", |(_, name)| name.trim());
    let durability = tetrarch_tests::durability().as_str();
    let build = if cfg!(debug_assertions) { "debug: not to be compared" } else { "release" };
    format!(
        "- {}, commit {}\n- {cores} cores, {model}\n- {} {} {}\n- nats-server {}, one server, \
         streams in files, durability {durability}\n- build: {build}; owner, host and clients in one \
         process, nats-server beside it on the same cores\n",
        said("date", &["-u", "+%Y-%m-%d"]),
        said("git", &["rev-parse", "--short", "HEAD"]),
        uname.sysname().to_string_lossy(),
        uname.release().to_string_lossy(),
        uname.machine().to_string_lossy(),
        bus.client().server_info().version,
    )
}

fn said(program: &str, args: &[&str]) -> String {
    let output = Command::new(program).args(args).output();
    let text = output.ok().filter(|output| output.status.success());
    text.and_then(|output| String::from_utf8(output.stdout).ok())
        .map_or_else(|| "unknown".to_owned(), |text| text.trim().to_owned())
}
