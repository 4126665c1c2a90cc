//! A target of the fuzzer: the parser that this binary is named after.
//! `cargo +nightly fuzz run --fuzz-dir tests/fuzz entry`
#![no_main]

mod parsers;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for (name, parser) in parsers::PARSERS {
        if name == env!("CARGO_BIN_NAME") {
            parser(bytes);
        }
    }
});
