//! What programs really wrote when they were refused, run in isolation by Linux 6.12 or later.

use std::path::Path;

use super::*;

/// Bounds with one writable place, and one that is hidden.
fn sandbox(writable: &Path, network: bool) -> SandboxPolicy {
    let network = if network { Network::Open } else { Network::Off };
    SandboxPolicy {
        required: false,
        network,
        gateway: None,
        readable: Vec::new(),
        writable: vec![writable.to_owned()],
        hidden: vec![writable.with_file_name("hidden")],
    }
}

/// A place with a writable directory `own`, a hidden one and a directory `other` with a file.
fn ground() -> tempfile::TempDir {
    let ground = tempfile::tempdir().unwrap();
    for dir in ["own", "hidden", "other"] {
        std::fs::create_dir(ground.path().join(dir)).unwrap();
    }
    std::fs::write(ground.path().join("other/there"), "").unwrap();
    std::fs::write(ground.path().join("hidden/key"), "").unwrap();
    ground
}

#[test]
fn refused_write_is_found_with_its_path() {
    let ground = ground();
    let other = ground.path().join("other");
    let sandbox = sandbox(&ground.path().join("own"), false);
    let node = "node:fs:2380\n    return binding.writeFileUtf8(\n\nError: EACCES: permission denied, open 'DIR/new'\n    \
                at Object.writeFileSync (node:fs:2380:20)\n    at Object.<anonymous> (DIR/there:1:15) {\n  errno: -13,\n  \
                code: 'EACCES',\n  syscall: 'open',\n  path: 'DIR/new'\n}\n\nNode.js v20.20.2\n";
    let python = "Traceback (most recent call last):\n  File \"DIR/there\", line 1, in <module>\n    open(\"DIR/new\", \
                  \"w\")\nPermissionError: [Errno 13] Permission denied: 'DIR/new'\n";
    let cargo = "   Compiling tiny v0.1.0 (DIR/there)\nerror: failed to write `DIR/new`\n\nCaused by:\n  \
                 Permission denied (os error 13)\n";
    for text in [
        "sh: 1: cannot create DIR/new: Permission denied\n",
        "/bin/sh: 1: cannot create DIR/new: Permission denied\n",
        "bash: line 1: DIR/new: Permission denied\n",
        "mkdir: cannot create directory ‘DIR/new’: Permission denied\n",
        "touch: cannot touch 'DIR/new': Permission denied\n",
        "cp: cannot create regular file 'DIR/new': Permission denied\n",
        "error: could not lock config file DIR/new: Permission denied\n",
        "mktemp: failed to create file via template ‘DIR/new’: Permission denied\ncould not go on\n",
        python,
        node,
        cargo,
    ] {
        let text = text.replace("DIR", other.to_str().unwrap());
        let path = other.join("new");
        let found = Blocked::of(&text, &sandbox);
        let allow = Some(other.clone());
        assert_eq!(found, Some(Blocked::Write { path, probably: false, allow }), "{text}");
    }
}

#[test]
fn refused_network_is_found_with_its_address() {
    let ground = ground();
    let sandbox = sandbox(&ground.path().join("own"), false);
    let node = "Error: connect EACCES 127.0.0.1:80 - Local (undefined:undefined)\n    at internalConnect (node:net:1098:16)\n\
                Emitted 'error' event on Socket instance at:\n    at emitErrorNT (node:internal/streams/destroy:169:8) {\n  \
                errno: -13,\n  code: 'EACCES',\n  syscall: 'connect',\n  address: '127.0.0.1',\n  port: 80\n}\n";
    let fetch = "TypeError: fetch failed\n    at node:internal/deps/undici/undici:14976:13\n  [cause]: Error: getaddrinfo \
                 EAI_AGAIN example.org\n      at GetAddrInfoReqWrap.onlookupall (node:dns:122:26) {\n    errno: -3001,\n    \
                 code: 'EAI_AGAIN'\n";
    let cargo = "error: failed to get `left-pad` as a dependency of package `tiny v0.1.0 (/w)`\n\nCaused by:\n  failed to \
                 download from `https://index.example.org/config.json`\n\nCaused by:\n  [6] Could not resolve hostname (Could not \
                 resolve host: index.example.org)\n";
    let socket = "  File \"/usr/lib/python3.11/socket.py\", line 232, in __init__\n    _socket.socket.__init__(self, family, \
                  type)\nPermissionError: [Errno 13] Permission denied\n";
    let urllib = "socket.gaierror: [Errno -3] Temporary failure in name resolution\n\nurllib.error.URLError: <urlopen error \
                  [Errno -3] Temporary failure in name resolution>\n";
    let pip = "Failed to establish a new connection: [Errno -2] Name or service not known')': /simple/requests/\nERROR: No \
               matching distribution found for requests\n";
    for (text, address) in [
        ("curl: (6) Could not resolve host: example.org\n", Some("example.org")),
        (
            "curl: (7) Failed to connect to 127.0.0.1 port 80 after 0 ms: Couldn't connect to server",
            Some("127.0.0.1"),
        ),
        ("wget: unable to resolve host address ‘example.org’\n", Some("example.org")),
        (
            "fatal: unable to access 'https://example.org/a/b/': Could not resolve host: example.org",
            Some("https://example.org/a/b"),
        ),
        (
            "ssh: Could not resolve hostname example.org: Temporary failure in name resolution\nfatal: Could not read \
             from remote repository.\n",
            Some("example.org"),
        ),
        (
            "psql: error: connection to server at \"127.0.0.1\", port 5432 failed: could not create socket: Permission denied",
            Some("127.0.0.1"),
        ),
        (node, Some("127.0.0.1:80")),
        (fetch, Some("example.org")),
        (cargo, Some("index.example.org")),
        (socket, None),
        (urllib, None),
        (pip, None),
    ] {
        let address = address.map(str::to_owned);
        assert_eq!(Blocked::of(text, &sandbox), Some(Blocked::Network { address }), "{text}");
    }
}

#[test]
fn unrelated_refusal_is_not_blamed_on_isolation() {
    let ground = ground();
    let root = ground.path().to_str().unwrap();
    let sandbox = sandbox(&ground.path().join("own"), true);
    for text in [
        "",
        "make: *** [all] Error 1",
        // The network is there, so the address is wrong.
        "curl: (6) Could not resolve host: nowhere.example\n",
        "git@github.com: Permission denied (publickey).\n",
        // It could be written, so somebody else refused.
        "sh: 1: cannot create ROOT/own/x: Permission denied\n",
        "sh: 1: cannot create x: Permission denied\n",
        "cat: ROOT/other/none: No such file or directory\n",
        "   Compiling tiny v0.1.0 (ROOT/other)\nPermission denied (os error 13)\n",
    ] {
        let text = text.replace("ROOT", root);
        assert_eq!(Blocked::of(&text, &sandbox), None, "{text}");
    }
}

#[test]
fn last_refusal_is_reported_with_what_allows_it() {
    let ground = ground();
    let root = ground.path().to_str().unwrap();
    let sandbox = sandbox(&ground.path().join("own"), false);
    for (text, sentence) in [
        (
            "cp: cannot create 'ROOT/other/a': Permission denied\ncurl: (6) Could not resolve host: a.org\ndone\n",
            "blocked by isolation: a.org; allow it with `tools: [network]` in profile `sh`",
        ),
        (
            "curl: (6) Could not resolve host: a.org\ncp: cannot create 'ROOT/other/a': Permission denied\n",
            "blocked by isolation: ROOT/other/a; allow it with `writable: [ROOT/other]` in profile `sh`",
        ),
        (
            "rm: cannot remove 'ROOT/other/there': Permission denied\n",
            "probably blocked by isolation: ROOT/other/there; allow it with `writable: [ROOT/other]` in profile `sh`",
        ),
        (
            "cat: ROOT/hidden/key: Permission denied\n",
            "blocked by isolation: ROOT/hidden/key; the host keeps it to itself, no run may read it",
        ),
        (
            "PermissionError: [Errno 13] Permission denied: socket\nsocket: Permission denied",
            "blocked by isolation: the network; allow it with `tools: [network]` in profile `sh`",
        ),
    ] {
        let blocked = Blocked::of(&text.replace("ROOT", root), &sandbox).unwrap();
        assert_eq!(blocked.sentence("sh"), sentence.replace("ROOT", root));
    }
}

#[test]
fn broad_directory_is_not_advised() {
    let ground = ground();
    let sandbox = sandbox(&ground.path().join("own"), false);
    let root = ground.path().to_str().unwrap();
    let home = std::env::var("HOME").unwrap();
    for place in
        ["/new", "/root/new", "/home/ada/new", &format!("{root}/new"), &format!("{home}/new")]
    {
        let allow = places::advised(Path::new(place).parent().unwrap(), &sandbox.hidden);
        assert_eq!(allow, None, "{place}");
    }
    let text = format!("sh: 1: cannot create {root}/new: Permission denied\n");
    let sentence = Blocked::of(&text, &sandbox).unwrap().sentence("sh");
    assert!(sentence.ends_with("/new; write it in the working directory"), "{sentence}");
}

#[test]
fn few_paths_of_a_line_are_looked_at_and_none_is_long() {
    let line = format!("{} '/last'", "‘/tmp/x/".repeat(20_000));
    let found = places::paths(&line);
    assert_eq!(found.len(), 16, "of 20001");
    assert_eq!(found[15], Path::new("/last"));
    let long = "/a".repeat(100_000);
    assert_eq!(places::paths(&long)[0].as_os_str().len(), 4096);
}

#[test]
fn many_long_paths_of_a_program_are_soon_read() {
    let ground = ground();
    let sandbox = sandbox(&ground.path().join("own"), false);
    let own = ground.path().join("own").display().to_string();
    let line = format!("error {}\n", format!("‘{own}/x").repeat(5000));
    let text = format!("{line}{}", "permission denied\n".repeat(8));
    assert_eq!(Blocked::of(&text, &sandbox), None);
    let deep = format!("{own}{}", "/x".repeat(1900));
    let line = format!("error {} permission denied\n", format!("‘{deep}").repeat(20));
    assert_eq!(Blocked::of(&line.repeat(20), &sandbox), None);
}
