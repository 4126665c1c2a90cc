//! Whatever stands in a configuration file, a variable or an option is taken or refused with its
//! place; what is taken can be run with. Values are made up from a seed (`FUZZ_SEED`).

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use super::super::keys::KEYS;
use super::*;

/// Values made up for each key, unless `FUZZ_ROUNDS` says how many.
const ROUNDS: u64 = 12;
/// What numbers, lengths of time, sizes, lists and texts break on.
const PIECES: [&str; 48] = [
    "",
    " ",
    "0",
    "1",
    "-1",
    "+7",
    "00",
    "0x10",
    "0b1",
    "1_000",
    "1e3",
    "1e999",
    "-0.0",
    "nan",
    "inf",
    "-inf",
    "0.3",
    "1.0000001",
    "18446744073709551615",
    "18446744073709551616",
    "9223372036854775807",
    "99999999999999999999999999",
    "true",
    "yes",
    "5s",
    "1h30m",
    "99999999999999999999d",
    "1ms",
    "-5s",
    "5 s",
    "64MiB",
    "99999999999TiB",
    "1B",
    "a,b",
    "a=b,c=d",
    "=",
    ",",
    "[",
    "]",
    "{",
    "}",
    "\"",
    "'",
    "\\",
    "\u{0}",
    "\u{1f300}\u{301}",
    "env:",
    "nats://[::1]:4222,",
];

struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % bound.max(1) as u64).unwrap()
    }

    fn text(&mut self) -> String {
        (0..=self.below(3)).map(|_| PIECES[self.below(PIECES.len())]).collect()
    }

    /// A value as a file has it, not always a sound one.
    fn toml(&mut self, depth: usize) -> String {
        match self.below(if depth == 0 { 4 } else { 7 }) {
            0 => self.text(),
            1 | 2 => format!("{:?}", self.text()),
            3 => {
                ["1979-05-27T07:32:00Z", "07:32:00", "'''a\nb'''", "0o7"][self.below(4)].to_owned()
            }
            4 => format!("[{}, {}]", self.toml(depth - 1), self.toml(depth - 1)),
            5 => format!("{{ base = {}, max = {} }}", self.toml(depth - 1), self.toml(depth - 1)),
            _ => format!("{{ {:?} = {} }}", self.text(), self.toml(depth - 1)),
        }
    }
}

fn from_env(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Reads it; what is taken is run with.
fn bear(stage: &Stage, place: &str) -> bool {
    match stage.read() {
        Ok(settings) => {
            drop(Config::of(settings).unwrap());
            true
        }
        Err(error) => {
            assert_eq!(error.code, crate::exit::Code::Usage, "{error}");
            assert!(error.to_string().contains(place), "{place} in {error}");
            false
        }
    }
}

#[test]
fn any_value_is_accepted_or_refused_with_its_position() {
    let (seed, rounds) = (from_env("FUZZ_SEED", 1), from_env("FUZZ_ROUNDS", ROUNDS));
    let mut taken = 0;
    for (number, key) in KEYS.iter().enumerate() {
        let (section, name) = key.name.rsplit_once('.').unwrap();
        for round in 0..rounds {
            let mut dice = Dice(seed ^ round << 20 ^ (number as u64) << 40);
            let text = dice.text();
            taken += usize::from(bear(&Stage::new().variable(&key.variable(), &text), "TETRARCH_"));
            let file = format!("[{section}]\n{name} = {}\n", dice.toml(3));
            taken += usize::from(bear(&Stage::new().file("t.toml", &file), "t.toml"));
        }
    }
    assert!(taken > 30, "some of them are sound: {taken}");
}

#[test]
fn any_text_as_a_file_is_refused_with_its_line() {
    let deep =
        |open: &str, close: &str| format!("a = {}{}", open.repeat(20_000), close.repeat(20_000));
    let texts = [
        deep("[", "]"),
        deep("{ a = ", "}"),
        format!("[{}]", ["a"; 20_000].join(".")),
        format!("{} = 1", ["a"; 20_000].join(".")),
        "\u{feff}[bus".to_owned(),
        "= 1".to_owned(),
        "[bus]\n[bus]".to_owned(),
        "bus = 1".to_owned(),
        "[bus.url]\nx = 1".to_owned(),
        "\u{0}".to_owned(),
        "x".repeat(1 << 20),
    ];
    for text in texts {
        let shown: String = text.chars().take(40).collect();
        assert!(!bear(&Stage::new().file("t.toml", &text), "t.toml:"), "{shown}");
    }
    let path = Stage::new().file("t.toml", "");
    fs::write(path.dir.path().join("t.toml"), b"\xff\xfe").unwrap();
    assert!(!bear(&path, "t.toml"));
}

#[test]
fn date_as_labels_is_refused() {
    let said = Stage::new().file("t.toml", "[host]\nlabels = 1979-05-27").refused();
    assert!(said.contains("allowed: names with a value each"), "{said}");
}

#[test]
fn path_outside_of_utf8_is_refused() {
    let path = || OsString::from_vec(b"/\xff".to_vec());
    let mut stage = Stage::new();
    stage.global.data_dir = Some(PathBuf::from(path()));
    let said = stage.refused();
    assert!(said.contains("--data-dir: bus.data_dir = \"/\\xFF\" is not allowed"), "{said}");
    let mut stage = Stage::new();
    stage.places.environment.push(("HOME".into(), path()));
    let said = stage.refused();
    assert!(said.contains("bus.data_dir: its default /\u{fffd}/.local"), "{said}");
}
