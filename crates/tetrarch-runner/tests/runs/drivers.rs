//! Commands that the settings of a repository name, which the host's git would run.

use tetrarch_runner::{Containment, worktrees};

use crate::repository::Repository;
use crate::stage::Stage;
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
