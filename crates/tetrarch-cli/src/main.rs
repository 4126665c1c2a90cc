//! The `tetrarch` binary.

fn main() -> std::process::ExitCode {
    tetrarch_cli::main()
}
