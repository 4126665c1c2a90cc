//! What the tools for files do when all is well, and what they say when it is not.

use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

#[tokio::test]
async fn file_is_read_in_pieces() {
    let bench = Bench::new();
    let lines: Vec<String> = (1..=5000).map(|number| format!("line {number}")).collect();
    bench.put("deep/a.txt", &lines.join("\n"));
    let text = bench.ok("read_file", json!({"path": "deep/a.txt"})).await;
    assert!(text.starts_with("     1\tline 1\n     2\tline 2\n"));
    assert!(text.ends_with("  2000\tline 2000\n[more follows: go on with offset 2001]"), "{text}");
    let read =
        |offset: u32, limit: u32| json!({"path": "deep/a.txt", "offset": offset, "limit": limit});
    assert_eq!(
        bench.ok("read_file", read(4999, 10)).await,
        "  4999\tline 4999\n  5000\tline 5000\n"
    );
    assert_eq!(bench.ok("read_file", read(5000, 1)).await, "  5000\tline 5000\n");
    assert_eq!(bench.error("read_file", read(5001, 1)).await, "deep/a.txt has 5000 lines");
    let absolute = bench.path("deep/a.txt").canonicalize().unwrap();
    let text = bench.ok("read_file", json!({"path": absolute, "limit": 1})).await;
    assert!(text.starts_with("     1\tline 1\n[more"), "{text}");
    bench.put("empty", "");
    assert_eq!(bench.ok("read_file", json!({"path": "empty"})).await, "[the file is empty]");
    bench.put("crlf", "a\r\nb");
    assert_eq!(bench.ok("read_file", json!({"path": "crlf"})).await, "     1\ta\n     2\tb\n");
}

#[tokio::test]
async fn read_text_is_bounded() {
    let bench = Bench::new();
    bench.put("wide", &format!("{}\nend", "x".repeat(1_000_000)));
    let text = bench.ok("read_file", json!({"path": "wide"})).await;
    assert!(text.len() < 3000 && text.contains(" [998000 more bytes]\n     2\tend"), "{text}");
    bench.put("long", &format!("{}\n", "y".repeat(1000)).repeat(1000));
    let text = bench.ok("read_file", json!({"path": "long"})).await;
    assert!(text.len() < TEXT_BYTES_MAX + 100, "{}", text.len());
    assert!(text.ends_with("[more follows: go on with offset 66]"), "{}", &text[text.len() - 50..]);
    // A sparse file: its size is no reason to read it.
    let huge = fs::File::create(bench.path("huge")).unwrap();
    huge.set_len(1 << 40).unwrap();
    let error = bench.error("read_file", json!({"path": "huge"})).await;
    assert!(error.contains("is binary"), "{error}");
}

#[tokio::test]
async fn file_is_written_atomically_with_directories_and_permissions() {
    let bench = Bench::new();
    let write = |content: &str| json!({"path": "new/deep/a.sh", "content": content});
    let said = bench.ok("write_file", write("one")).await;
    assert_eq!(said, "wrote 3 bytes to new/deep/a.sh");
    fs::set_permissions(bench.path("new/deep/a.sh"), fs::Permissions::from_mode(0o750)).unwrap();
    bench.ok("write_file", write("two")).await;
    assert_eq!(bench.content("new/deep/a.sh"), "two");
    let mode = fs::metadata(bench.path("new/deep/a.sh")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o750);
    let left = fs::read_dir(bench.path("new/deep")).unwrap().count();
    assert_eq!(left, 1, "what it was written under is renamed");
    let over = "z".repeat(4 * 1024 * 1024 + 1);
    bench.ok("write_file", write(&over[1..])).await;
    let error = bench.error("write_file", write(&over)).await;
    assert!(error.contains("at most 4194304"), "{error}");
    let error = bench.error("write_file", json!({"path": "new", "content": ""})).await;
    assert!(error.contains("is a directory"), "{error}");
    let error = bench.error("write_file", json!({"path": "new/deep/a.sh/b", "content": ""})).await;
    assert!(error.contains("Not a directory"), "{error}");
}

#[tokio::test]
async fn edit_needs_exactly_one_match() {
    let bench = Bench::new();
    bench.put("a.rs", "fn a() {}\nfn b() {}\naaa\n");
    let edit = |old: &str, new: &str| json!({"path": "a.rs", "old": old, "new": new});
    bench.ok("edit_file", edit("fn b() {}", "fn c() {\n}")).await;
    assert_eq!(bench.content("a.rs"), "fn a() {}\nfn c() {\n}\naaa\n");
    for (old, says) in [
        ("fn b()", "is not in a.rs"),
        ("fn ", "is more than once"),
        ("aa", "is more than once"),
        ("", "use write_file"),
    ] {
        let error = bench.error("edit_file", edit(old, "x")).await;
        assert!(error.contains(says), "{old:?}: {error}");
    }
    assert_eq!(bench.content("a.rs"), "fn a() {}\nfn c() {\n}\naaa\n");
    fs::write(bench.path("a.rs"), [b'a', 0xff]).unwrap();
    assert!(bench.error("edit_file", edit("a", "b")).await.contains("not UTF-8"));
    let error = bench.error("edit_file", json!({"path": "b", "old": "a", "new": "b"})).await;
    assert!(error.contains("No such file"), "{error}");
}

#[tokio::test]
async fn files_are_listed_by_directory_and_pattern() {
    let bench = Bench::new();
    for file in ["b.rs", "src/a.rs", "src/deep/c.rs", "src/deep/d.py", "target/x.rs", ".git/config"]
    {
        bench.put(file, "");
    }
    bench.put(".gitignore", "/target\n");
    bench.put("src/.gitignore", "*.py\n");
    symlink("b.rs", bench.path("link")).unwrap();
    let list = |arguments: Value| bench.ok("list_files", arguments);
    assert_eq!(list(json!({})).await, ".gitignore\nb.rs\nlink@\nsrc/\n");
    assert_eq!(list(json!({"ignored": true})).await, ".gitignore\nb.rs\nlink@\nsrc/\ntarget/\n");
    let rust = "b.rs\nsrc/a.rs\nsrc/deep/c.rs\n";
    assert_eq!(list(json!({"pattern": "*.rs"})).await, rust);
    assert_eq!(list(json!({"pattern": "src/*.rs"})).await, "src/a.rs\n");
    assert_eq!(list(json!({"path": "src", "pattern": "**/c.rs"})).await, "src/deep/c.rs\n");
    assert_eq!(list(json!({"path": "src", "pattern": "*.py"})).await, "[nothing]");
    let python = json!({"path": "src/deep", "pattern": "*.py", "ignored": true});
    assert_eq!(list(python).await, "src/deep/d.py\n");
    assert!(bench.error("list_files", json!({"path": "b.rs"})).await.contains("Not a directory"));
    assert!(
        bench.error("list_files", json!({"pattern": "["})).await.contains("is not a valid glob")
    );
    for number in 0..=1000 {
        bench.put(&format!("many/{number:04}"), "");
    }
    let many = list(json!({"path": "many"})).await;
    assert!(many.ends_with("many/0999\n[there are more: name a directory or a pattern]"), "{many}");
}

#[tokio::test]
async fn files_are_searched_line_by_line() {
    let bench = Bench::new();
    bench.put("a.rs", "fn one() {}\nfn Two() {}\n");
    bench.put("src/b.py", "def two(): pass\n");
    bench.put("target/c.rs", "fn two() {}\n");
    bench.put(".gitignore", "target\n");
    fs::write(bench.path("binary"), b"two\0two").unwrap();
    let search = |arguments: Value| bench.ok("search_files", arguments);
    assert_eq!(search(json!({"pattern": "two"})).await, "src/b.py:1: def two(): pass\n");
    let both = "a.rs:2: fn Two() {}\nsrc/b.py:1: def two(): pass\n";
    assert_eq!(search(json!({"pattern": "two", "ignore_case": true})).await, both);
    assert_eq!(search(json!({"pattern": "^fn", "path": "a.rs"})).await.lines().count(), 2);
    assert_eq!(search(json!({"pattern": "two", "files": "*.rs"})).await, "[nothing]");
    let ignored = search(json!({"pattern": "two", "files": "*.rs", "ignored": true})).await;
    assert_eq!(ignored, "target/c.rs:1: fn two() {}\n");
    let error = bench.error("search_files", json!({"pattern": "("})).await;
    assert!(error.contains("not a valid regular expression"), "{error}");
    let error = bench.error("search_files", json!({"pattern": r"\w{1000}{1000}"})).await;
    assert!(error.contains("not a valid regular expression"), "{error}");
    let error = bench.error("search_files", json!({"pattern": "a", "path": "none"})).await;
    assert!(error.contains("No such file"), "{error}");
    bench.put("many", &"hit\n".repeat(300));
    let many = search(json!({"pattern": "hit", "path": "many"})).await;
    assert!(many.ends_with("many:200: hit\n[there are more: search for less]"), "{many}");
}
