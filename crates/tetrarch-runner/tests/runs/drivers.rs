//! Commands that the settings of a repository name, which the host's git would run.

use tetrarch_core::brief::Worktree;
use tetrarch_core::id::RunId;
use tetrarch_core::order::Exit;
use tetrarch_runner::{Containment, worktrees};

use crate::repository::Repository;
use crate::stage::{Stage, fresh, is_alive, soon};
use crate::worktree::{apply, order, work};

#[tokio::test]
async fn commands_that_a_repository_names_are_kept_to_it() {
    // Not where temporary files are, which every program may write.
    let place = tempfile::tempdir_in("/var/tmp").unwrap();
    let (hidden, out) = (place.path().join("hidden"), place.path().join("out"));
    for dir in [&hidden, &out] {
        std::fs::create_dir(dir).unwrap();
    }
    std::fs::write(hidden.join("key"), "secret").unwrap();
    let mut stage = Stage::with(|config| {
        config.worktrees_dir = hidden.join("worktrees");
        config.containment.hidden = vec![hidden.clone()];
    });
    let repository = Repository::at(place.path().join("repo"));
    repository.write(".gitattributes", "* filter=evil merge=evil\n");
    repository.commit("attributes");
    // As a program writes them that works in the repository itself.
    let (out, key) = (out.display().to_string(), hidden.join("key"));
    let key = key.display();
    for (name, file) in [("filter.evil.smudge", "smudge"), ("filter.evil.clean", "clean")] {
        let command =
            format!("sh -c 'echo > {out}/{file}; echo > ran-{file}; cat {key} >> ran-{file}; cat'");
        repository.git(&["config", name, &command]);
    }
    let command = format!("sh -c 'echo > {out}/merge; cat {key} > {out}/key; exit 1'");
    repository.git(&["config", "merge.evil.driver", &command]);
    let (start, made) = work(&mut stage, &repository, "echo four >> a").await;
    repository.write("a", "zero\none\ntwo\nthree\n");
    repository.git(&["-c", "filter.evil.clean=cat", "commit", "--quiet", "-am", "meanwhile"]);
    let outcome = apply(&mut stage, order(&made, &start, 1)).await;
    let containment = Containment { hidden: vec![hidden.clone()], ..Containment::default() };
    worktrees(&hidden.join("worktrees"), &containment).await;
    let left: Vec<_> = std::fs::read_dir(&out).unwrap().map(|it| it.unwrap().file_name()).collect();
    let layers = tetrarch_runner::probe(&Containment::default(), None).layers;
    if layers.iter().any(|layer| layer.name == "landlock" && layer.active) {
        assert_eq!(left, [""; 0], "{outcome:?}");
        let mut told = String::new();
        for dir in [repository.0.clone(), repository.0.join(".git")] {
            for entry in std::fs::read_dir(dir).unwrap().flatten() {
                let named = entry.file_name().to_string_lossy().starts_with("ran-");
                told += &if named {
                    std::fs::read_to_string(entry.path()).unwrap()
                } else {
                    String::new()
                };
            }
        }
        assert!(!told.contains("secret"), "{told}");
    }
}

/// A filter of a repository within the files, which the host's git would run with rights to the outer one.
#[tokio::test]
async fn commands_of_a_nested_repository_are_not_run() {
    let mut stage = Stage::new();
    let repository = Repository::new(&stage);
    let ran = repository.0.join(".git/ran");
    let script = format!(
        "set -e; export GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x GIT_COMMITTER_NAME=x GIT_COMMITTER_EMAIL=x; \
         for it in sub moved; do git init -q $it; echo one > $it/a; git -C $it add a; git -C $it commit -qm $it; \
         git add $it; done; git commit -qm links; \
         cd moved; git commit -q --allow-empty -m more; git rev-parse HEAD > ../head; cd ../sub; \
         echo '* filter=x' > .gitattributes; git config filter.x.clean 'echo > {ran}; cat'; \
         echo two > a; touch -d 2020-01-01 a",
        ran = ran.display()
    );
    let (_, made) = work(&mut stage, &repository, &script).await;
    let containment = Containment::default();
    worktrees(&stage.dir.path().join("worktrees"), &containment).await;
    assert!(!ran.exists(), "it wrote the outer repository");
    assert_eq!(made.action.files, ["head", "moved", "sub"]);
    let nested = repository.git(&["rev-parse", &format!("{}:moved", made.branch)]);
    assert_eq!(nested, repository.git(&["show", &format!("{}:head", made.branch)]));
}

/// A repository whose filter runs a script when files are checked out into a worktree, and a place that no program is
/// given.
fn with_filter(stage: &Stage, script: &str) -> (Repository, tempfile::TempDir) {
    let victim = tempfile::tempdir_in("/var/tmp").unwrap();
    std::fs::write(victim.path().join("kept"), "kept").unwrap();
    let repository = Repository::new(stage);
    repository.write(".gitattributes", "a filter=evil\n");
    repository.commit("attributes");
    let script = script.replace("VICTIM", victim.path().to_str().unwrap());
    repository.git(&["config", "filter.evil.smudge", &format!("sh -c '{script}; cat'")]);
    (repository, victim)
}

#[tokio::test]
async fn link_that_a_filter_leaves_in_a_worktree_is_not_written_through() {
    let mut stage = Stage::new();
    let (repository, victim) = with_filter(&stage, "rm -f .git; ln -s VICTIM/kept .git");
    let seen = stage.run(repository.apart("echo four >> a")).await;
    assert_eq!(seen.exit, Exit::Code(0), "{seen:?}");
    assert_eq!(std::fs::read_to_string(victim.path().join("kept")).unwrap(), "kept");
}

#[tokio::test]
async fn pipe_that_a_filter_leaves_in_a_worktree_does_not_block() {
    let mut stage = Stage::new();
    let (repository, _victim) = with_filter(&stage, "rm -f .git; mkfifo .git");
    let seen = soon("the run", stage.run(repository.apart("echo four >> a"))).await;
    assert_eq!(seen.exit, Exit::Code(0), "{seen:?}");
}

#[tokio::test]
async fn repository_that_a_filter_names_is_not_copied_from() {
    let mut stage = Stage::new();
    let own = tempfile::tempdir().unwrap();
    let script = format!(
        "d={}; mkdir -p $d/info; ln -sf VICTIM/kept $d/index; ln -sf VICTIM/kept $d/info/sparse-checkout; \
         rm -f .git; echo gitdir: $d > .git",
        own.path().display()
    );
    let (repository, _victim) = with_filter(&stage, &script);
    let start = repository.apart("cat ../git/index ../git/info/sparse-checkout; kill -KILL $$");
    let seen = stage.run(start).await;
    assert!(!seen.log().contains("kept"), "{}", seen.log());
    let left =
        std::fs::read_dir(stage.dir.path().join("worktrees")).unwrap().flatten().next().unwrap();
    let taken = left.path().join("git/info/sparse-checkout");
    assert!(!taken.exists(), "{taken:?}");
}

/// A launcher like the host's: waits for its word, uncovers the variables and becomes the program. Without one git
/// could have started its filter before it is in its group.
const LAUNCHER: &str = "import os, sys
os.setsid()
os.read(0, 1)
own = {name[1:]: value for name, value in os.environ.items() if name.startswith('+')}
os.execve(sys.argv[1], sys.argv[2:], own)
";

#[tokio::test]
async fn process_that_a_filter_leaves_ends_with_the_call_of_git() {
    let mut stage = Stage::with(|config| {
        let launcher = ["python3", "-c", LAUNCHER];
        config.containment.launcher.argv = launcher.map(Into::into).to_vec();
    });
    let pid = std::env::temp_dir().join(format!("tetrarch-left-{}", fresh()));
    let script = format!(
        "env -i setsid sleep 300 > /dev/null 2>&1 & echo $! > {}; sleep 0.1",
        pid.display()
    );
    let (repository, _victim) = with_filter(&stage, &script);
    let seen = stage.run(repository.apart("true")).await;
    assert_eq!(seen.exit, Exit::Code(0), "{seen:?}");
    let left = std::fs::read_to_string(&pid).unwrap();
    std::fs::remove_file(&pid).unwrap();
    if seen.isolation().starts_with("cgroup") {
        assert!(!is_alive(left.trim()), "{left} is left");
    }
}

#[tokio::test]
async fn repository_in_a_directory_of_all_programs_is_nobodys() {
    let shared = tempfile::tempdir_in("/var/tmp").unwrap();
    let shared = shared.path().canonicalize().unwrap().join("shared");
    let repository = Repository::at(shared.clone());
    repository.write("job/Makefile", "the attacker's");
    repository.commit("job");
    std::fs::write(shared.join("job/Makefile"), "own").unwrap();
    let mut stage = Stage::with(|config| config.containment.writable = vec![shared.clone()]);
    let mut start = repository.apart("cat Makefile; pwd");
    start.brief.workspace = shared.join("job").display().to_string();
    start.brief.worktree = Worktree::Auto;
    let seen = stage.run(start.clone()).await;
    assert!(seen.made().deliverable.starts_with("own"), "{seen:?}");
    start.brief.worktree = Worktree::Isolated;
    start.run = RunId(fresh());
    let refused = stage.refused(start).await;
    assert!(refused.contains("is not in one"), "{refused}");
}
