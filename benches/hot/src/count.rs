//! Instructions of one run of an operation: this program under callgrind, N times and 2N times.

use std::process::Command;

/// Instructions of one run.
///
/// # Errors
///
/// Says why there is no count.
pub(crate) fn per_run(name: &str, times: usize) -> Result<f64, String> {
    let (once, twice) = (instructions(name, times)?, instructions(name, 2 * times)?);
    if twice <= once {
        return Err(format!("`{name}` takes {once} instructions {times} times, and {twice} twice as often"));
    }
    Ok((twice - once) as f64 / times as f64)
}

/// The compiler's name and version: other compilers, other counts.
pub(crate) fn toolchain() -> Result<String, String> {
    let out = Command::new("rustc").arg("--version").output().map_err(|error| format!("cannot run rustc: {error}"))?;
    let text = String::from_utf8_lossy(&out.stdout);
    // Without the commit and its date.
    Ok(text.split(" (").next().unwrap_or_default().trim().to_owned())
}

fn instructions(name: &str, times: usize) -> Result<u64, String> {
    let own = std::env::current_exe().map_err(|error| format!("cannot tell where this program is: {error}"))?;
    let out = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(own)
        .args([name, &times.to_string()])
        // Paths and settings of the caller lie on the new stack; fewer is steadier.
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .output()
        .map_err(|error| format!("cannot run valgrind: {error}"))?;
    let told = String::from_utf8_lossy(&out.stderr);
    if !out.status.success() {
        return Err(format!("valgrind failed on `{name}`: {told}"));
    }
    collected(&told).ok_or_else(|| format!("valgrind counted nothing for `{name}`: {told}"))
}

/// The count in what callgrind prints at the end.
fn collected(told: &str) -> Option<u64> {
    let line = told.lines().find_map(|line| line.split_once("Collected :"))?;
    line.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_count_is_found_in_what_callgrind_prints() {
        let told = "==7== Events    : Ir\n==7== Collected : 123456\n==7==\n==7== I   refs:      123,456\n";
        assert_eq!(collected(told), Some(123_456));
        assert_eq!(collected("==7== something else\n"), None);
    }
}
