//! Nothing outside of a workspace is read or written, whatever the arguments and the links are.

use std::os::unix::fs::symlink;
use std::sync::atomic::AtomicBool;

use proptest::prelude::*;

use super::*;

/// A workspace with every kind of link that leads out.
fn trapped() -> Bench {
    let bench = Bench::new();
    bench.put("inside/a.txt", "inside");
    let outside = bench.place.path().canonicalize().unwrap();
    symlink(outside.join("secret.txt"), bench.path("absolute")).unwrap();
    symlink("../secret.txt", bench.path("relative")).unwrap();
    symlink("../../secret.txt", bench.path("inside/deeper")).unwrap();
    symlink(&outside, bench.path("dir")).unwrap();
    symlink("..", bench.path("up")).unwrap();
    symlink("/", bench.path("top")).unwrap();
    symlink("/proc/self/root", bench.path("magic")).unwrap();
    symlink("loop", bench.path("loop")).unwrap();
    symlink("inside", bench.path("within")).unwrap();
    symlink("inside/a.txt", bench.path("file")).unwrap();
    bench
}

fn nothing_outside_changed(bench: &Bench) {
    let mut names: Vec<_> = fs::read_dir(bench.place.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["secret.txt", "work", "work-beside"]);
    assert_eq!(fs::read_dir(bench.place.path().join("work-beside")).unwrap().count(), 1);
    for secret in ["secret.txt", "work-beside/secret.txt"] {
        assert_eq!(fs::read_to_string(bench.place.path().join(secret)).unwrap(), SECRET);
    }
}

#[test]
fn workspace_that_became_a_link_is_not_opened() {
    let bench = Bench::new();
    let beside = bench.place.path().canonicalize().unwrap().join("work-beside");
    let link = beside.with_file_name("link");
    symlink(&beside, &link).unwrap();
    assert!(inside::Workspace::open(&beside, &[], Arc::default()).is_ok());
    let refused = inside::Workspace::open(&link, &[], Arc::default()).unwrap_err();
    assert!(matches!(refused, inside::NoWorkspace::Unopened { .. }), "{refused}");
}

#[tokio::test]
async fn no_path_leaves_the_workspace() {
    let bench = trapped();
    let outside = bench.place.path().canonicalize().unwrap();
    let beside = format!("{}-beside/secret.txt", bench.path("").canonicalize().unwrap().display());
    let absolute = outside.join("secret.txt").to_str().unwrap().to_owned();
    for path in [
        "../secret.txt",
        "inside/../../secret.txt",
        "inside/../inside/a.txt",
        "absolute",
        "relative",
        "inside/deeper",
        "dir/secret.txt",
        "up/secret.txt",
        "top/etc/passwd",
        "magic/etc/passwd",
        "loop",
        "/etc/passwd",
        "//etc/passwd",
        "/",
        "/proc/self/environ",
        "..",
        &beside,
        &absolute,
        "inside/a.txt\0",
        &"a/".repeat(3000),
        "~/.ssh/id_rsa",
    ] {
        for (tool, arguments) in [
            ("read_file", json!({"path": path})),
            ("list_files", json!({"path": path})),
            ("search_files", json!({"path": path, "pattern": "."})),
            ("run_command", json!({"argv": ["pwd"], "directory": path})),
        ] {
            let text = bench.error(tool, arguments).await;
            assert!(!text.contains(SECRET), "{tool} {path:?}: {text}");
        }
        if path != "~/.ssh/id_rsa" {
            bench.error("write_file", json!({"path": path, "content": "x"})).await;
            bench.error("edit_file", json!({"path": path, "old": "s", "new": "x"})).await;
        }
    }
    nothing_outside_changed(&bench);
    assert_eq!(bench.ok("read_file", json!({"path": "within/a.txt"})).await, "     1\tinside\n");
    assert_eq!(bench.ok("read_file", json!({"path": "file"})).await, "     1\tinside\n");
    bench.ok("write_file", json!({"path": "within/b.txt", "content": "b"})).await;
    assert_eq!(bench.content("inside/b.txt"), "b");
}

#[tokio::test]
async fn links_are_neither_followed_nor_written_through() {
    let bench = trapped();
    let found = bench.ok("search_files", json!({"pattern": "secret|root|inside"})).await;
    assert_eq!(found, "inside/a.txt:1: inside\n");
    let listed = bench.ok("list_files", json!({"pattern": "**"})).await;
    assert!(listed.contains("up@\n") && !listed.contains("up/"), "{listed}");
    let error = bench.error("write_file", json!({"path": "file", "content": "x"})).await;
    assert!(error.contains("is a symbolic link"), "{error}");
    assert_eq!(bench.content("inside/a.txt"), "inside");
}

#[tokio::test]
async fn non_regular_file_is_refused_without_blocking() {
    let bench = Bench::new();
    bench.pipe("fifo");
    let _socket = std::os::unix::net::UnixListener::bind(bench.path("socket")).unwrap();
    for (path, what) in [("fifo", "a named pipe"), ("socket", ""), (".", "a directory")] {
        let error = bench.error("read_file", json!({"path": path})).await;
        assert!(error.contains(what), "{error}");
        bench.error("write_file", json!({"path": path, "content": "x"})).await;
        bench.error("edit_file", json!({"path": path, "old": "a", "new": "x"})).await;
    }
    assert_eq!(bench.ok("search_files", json!({"pattern": "."})).await, "[nothing]");
    fs::write(bench.path("image"), b"\x89PNG\0\0").unwrap();
    let error = bench.error("read_file", json!({"path": "image"})).await;
    assert!(error.contains("image is binary (6 bytes)"), "{error}");
}

#[tokio::test]
async fn only_paths_in_scope_are_written_and_git_never() {
    let bench = Bench::with(&["*"], &["out/", "src/*.rs", "doc"]);
    bench.put("src/a.rs", "a");
    bench.put("src/keep.py", "a");
    fs::create_dir(bench.path("out")).unwrap();
    symlink("../src", bench.path("out/back")).unwrap();
    for path in
        ["out/x", "out/new/deep/x", "src/a.rs", "src/new.rs", "doc/new/x", "doc/y", "out/back/b.rs"]
    {
        bench.ok("write_file", json!({"path": path, "content": "x"})).await;
    }
    for path in [
        "x",
        "src/keep.py",
        "src/deep/a.rs",
        "outer/x",
        "*",
        "src/*",
        "out/back/x.py",
        "new/deep/x",
    ] {
        let error = bench.error("write_file", json!({"path": path, "content": "x"})).await;
        assert!(error.contains("out/, src/*.rs, doc"), "{path}: {error}");
        bench.error("edit_file", json!({"path": path, "old": "a", "new": "x"})).await;
    }
    assert!(!bench.path("new").exists(), "no directory is made that is out of scope");
    let bench = Bench::new();
    bench.put(".git/config", "a");
    symlink(".git", bench.path("innocent")).unwrap();
    for path in [".git/config", ".git/hooks/x", "innocent/config", "sub/.git"] {
        let error = bench.error("write_file", json!({"path": path, "content": "x"})).await;
        assert!(error.contains("belongs to git"), "{path}: {error}");
    }
}

/// While one changes a directory into a link to the outside and back, no write and no read through
/// it lands outside.
#[tokio::test]
async fn link_swapped_in_during_a_call_is_not_followed() {
    let bench = Bench::new();
    bench.put("real/secret.txt", "decoy");
    symlink(bench.place.path(), bench.path("trap")).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let (seen, root) = (Arc::clone(&stop), bench.path(""));
    let swapping = std::thread::spawn(move || {
        let exchange = rustix::fs::RenameFlags::EXCHANGE;
        while !seen.load(Ordering::Relaxed) {
            let (one, other) = (root.join("real"), root.join("trap"));
            let cwd = rustix::fs::CWD;
            rustix::fs::renameat_with(cwd, one, cwd, other, exchange).unwrap();
        }
    });
    let (mut landed, mut refused) = (0, 0);
    // Both ways of the directory must have been met.
    while landed + refused < 300 || landed == 0 || refused == 0 {
        let read = bench.toolbox.call("read_file", &json!({"path": "real/secret.txt"})).await;
        assert!(!read.text.contains(SECRET));
        let path = format!("real/new/{}", landed + refused);
        let arguments = json!({"path": path, "content": "x"});
        let written = !bench.toolbox.call("write_file", &arguments).await.is_error;
        landed += u32::from(written);
        refused += u32::from(!written);
    }
    stop.store(true, Ordering::Relaxed);
    swapping.join().unwrap();
    nothing_outside_changed(&bench);
}

/// Whatever is made of the pieces that matter: what is outside is never shown nor changed.
#[test]
fn no_path_argument_reads_or_writes_outside() {
    let bench = trapped();
    let outside = bench.place.path().canonicalize().unwrap().to_str().unwrap().to_owned();
    let piece = prop_oneof![
        prop::sample::select(vec![
            "..",
            ".",
            "",
            "dir",
            "up",
            "top",
            "magic",
            "inside",
            "within",
            "work",
            "work-beside",
            "secret.txt",
            "absolute",
            "relative",
            "deeper",
            "file",
            "loop",
            "@outside",
        ])
        .prop_map(ToOwned::to_owned),
        any::<String>(),
    ];
    let paths = (prop::collection::vec(piece, 0..6), any::<bool>()).prop_map(|(pieces, top)| {
        let path = pieces.join("/").replace("@outside", &outside);
        if top { format!("/{path}") } else { path }
    });
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) };
    let tried = proptest::test_runner::TestRunner::new(config).run(&paths, |path| {
        for (tool, arguments) in [
            ("read_file", json!({"path": path})),
            ("search_files", json!({"path": path, "pattern": "secret"})),
            ("edit_file", json!({"path": path, "old": SECRET, "new": "x"})),
            ("write_file", json!({"path": path, "content": "x"})),
        ] {
            let outcome = runtime.block_on(bench.toolbox.call(tool, &arguments));
            assert!(!outcome.text.contains(SECRET), "{tool} {path:?}: {}", outcome.text);
        }
        nothing_outside_changed(&bench);
        Ok(())
    });
    tried.unwrap();
}
