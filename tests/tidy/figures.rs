//! Figures of the code, by crate, in the columns of the table in docs/STYLE.md:
//! `cargo test -p tetrarch-tests --test tidy -- --nocapture figures` prints them. One of them is a bound: the
//! product may shrink and not grow.

use std::fmt;

use crate::repository::sources;
use crate::source::{Source, has_word};

/// Lines of code of the product, without tests, comments and blank lines. Lower it when there are fewer.
const PRODUCT_LINES_MAX: usize = 106_050;
/// Crates in the order of their arrows.
const CRATES: [&str; 11] = [
    "core",
    "view",
    "roster",
    "page",
    "bus",
    "engine",
    "runner",
    "cli",
    "model",
    "telemetry",
    "failpoint",
];

/// What is counted of one crate.
#[derive(Debug, Default)]
struct Figures {
    product: usize,
    test: usize,
    files: Vec<usize>,
    functions: Vec<usize>,
    async_functions: usize,
    comments: usize,
    docs: usize,
    unwraps: usize,
}

impl Figures {
    fn add(&mut self, source: &Source) {
        let mut file = 0;
        for line in &source.lines {
            let raw = line.raw.trim_start();
            match (line.code.trim().is_empty(), line.test) {
                (false, true) => self.test += 1,
                (false, false) => file += 1,
                (true, true) => {}
                (true, false) if raw.starts_with("///") || raw.starts_with("//!") => self.docs += 1,
                (true, false) if raw.starts_with("//") => self.comments += 1,
                (true, false) => {}
            }
        }
        self.product += file;
        if file > 0 {
            self.files.push(file);
        }
        let code: Vec<(usize, &str)> = source.product_code().collect();
        for (at, (_, line)) in code.iter().enumerate() {
            if line.contains(".unwrap()") || line.contains(".expect(") {
                self.unwraps += 1;
            }
            if has_word(line, "fn") && !line.trim_start().starts_with("type ") {
                self.async_functions += usize::from(has_word(line, "async"));
                self.functions.extend(length(&code[at..]));
            }
        }
    }

    fn merge(&mut self, other: Self) {
        self.product += other.product;
        self.test += other.test;
        self.files.extend(other.files);
        self.functions.extend(other.functions);
        self.async_functions += other.async_functions;
        self.comments += other.comments;
        self.docs += other.docs;
        self.unwraps += other.unwraps;
    }
}

/// The lines of a function that begins on the first of these lines; none of one without a body.
fn length(lines: &[(usize, &str)]) -> Option<usize> {
    let mut depth = 0_i32;
    for (at, (_, line)) in lines.iter().enumerate() {
        for c in line.chars() {
            match c {
                ';' if depth == 0 => return None,
                '{' => depth += 1,
                '}' => {
                    depth -= 1;
                    if depth <= 0 {
                        return Some(at + 1);
                    }
                }
                _ => {}
            }
        }
    }
    None
}

fn percentile(values: &[usize], percent: usize) -> usize {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or_default()
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = |part: usize, whole: usize| part as f64 / whole.max(1) as f64;
        let all = self.product + self.comments + self.docs;
        let long = self.functions.iter().filter(|lines| **lines > 70).count();
        write!(
            f,
            "{:.1} | {:.2} | {}/{} | {}/{}/{} | {:.1}% | {:.1}% | {:.1}% | {:.2} | {:.0}% |",
            share(self.product, 1000),
            share(self.test, self.product),
            percentile(&self.files, 50),
            percentile(&self.files, 90),
            percentile(&self.functions, 50),
            percentile(&self.functions, 90),
            percentile(&self.functions, 99),
            100.0 * share(long, self.functions.len()),
            100.0 * share(self.comments, all),
            100.0 * share(self.docs, all),
            1000.0 * share(self.unwraps, self.product),
            100.0 * share(self.async_functions, self.functions.len()),
        )
    }
}

fn of_crate(name: &str) -> Figures {
    let mut figures = Figures::default();
    let sources = sources();
    let own = sources.iter().filter(|source| source.crate_name() == Some(name));
    own.for_each(|source| figures.add(source));
    figures
}

#[test]
#[expect(clippy::print_stdout, reason = "the figures are what this is run for")]
fn figures_product_code_stays_below_its_bound() {
    println!(
        "| crate | code kloc | tests:code | file p50/p90 | fn p50/p90/p99 | fn>70 | comments | docs | unwrap/kloc | async fns |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    let mut all = Figures::default();
    for name in CRATES {
        let figures = of_crate(name);
        println!("| {name} | {figures}");
        all.merge(figures);
    }
    println!("| all | {all}");
    let lines = all.product;
    assert!(
        lines <= PRODUCT_LINES_MAX,
        "{lines} lines of product code; the bound is {PRODUCT_LINES_MAX}: delete before you add"
    );
}

#[test]
fn figures_count_code_tests_comments_and_functions_apart() {
    let text = "//! Head.\n\n/// Says.\npub async fn a() {\n    // why\n    b().unwrap();\n}\nfn c();\n\
                #[cfg(test)]\nmod tests {\n    fn d() {}\n}\n";
    let mut figures = Figures::default();
    figures.add(&Source::parse("crates/tetrarch-core/src/a.rs", text));
    assert_eq!((figures.product, figures.test), (4, 4));
    assert_eq!((figures.comments, figures.docs, figures.unwraps), (1, 2, 1));
    assert_eq!((figures.functions, figures.async_functions), (vec![4], 1));
}
