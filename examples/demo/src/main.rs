//! The first command of the README; see `--help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    pointsman_demo::main()
}
