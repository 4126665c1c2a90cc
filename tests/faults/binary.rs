//! The product's binary with failpoints: the same program, made for the tests alone.

fn main() -> std::process::ExitCode {
    tetrarch_cli::main()
}
