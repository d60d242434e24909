//! Durations as Go writes them, and quantities as Kubernetes does.

use std::time::Duration;

/// `1m30s`, `150ms`, `0`; not below 0.
pub(super) fn duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let (mut rest, mut sum) = (text, 0.0);
    while !rest.is_empty() {
        let (number, after) = split(rest)?;
        let end = after.find(|letter: char| letter.is_ascii_digit() || letter == '.').unwrap_or(after.len());
        let scale = match &after[..end] {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        sum += number * scale;
        rest = &after[end..];
    }
    // To the nanosecond, so that 0.15 s is 150 ms.
    if text.is_empty() { None } else { Duration::try_from_secs_f64((sum * 1e9).round() / 1e9).ok() }
}

/// `500`, `1k`, `10Gi`; rounded up, as Kubernetes does where a whole number is wanted.
pub(super) fn quantity(text: &str) -> Option<u64> {
    let (number, suffix) = split(text.trim())?;
    let scale = match suffix {
        "" => 1.0,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "Ki" => 1024.0,
        "Mi" => 1_048_576.0,
        "Gi" => 1_073_741_824.0,
        "Ti" => 1_099_511_627_776.0,
        _ => return None,
    };
    Some((number * scale).ceil() as u64)
}

/// A number, and what comes after it.
fn split(text: &str) -> Option<(f64, &str)> {
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_as_go_writes_them() {
        assert_eq!(duration("60s"), Some(Duration::from_secs(60)));
        assert_eq!(duration("1m30.5s"), Some(Duration::from_millis(90_500)));
        assert_eq!(duration("150ms"), Some(Duration::from_millis(150)));
        assert_eq!(duration("0s"), Some(Duration::ZERO));
        assert_eq!([duration(""), duration("5"), duration("-1s"), duration("1d")], [None; 4]);
    }

    #[test]
    fn quantities_are_as_kubernetes_writes_them() {
        assert_eq!(quantity("10Gi"), Some(10 << 30));
        assert_eq!(quantity("1k"), Some(1000));
        assert_eq!(quantity("1.5M"), Some(1_500_000));
        assert_eq!(quantity("500"), Some(500));
        assert_eq!([quantity(""), quantity("-1"), quantity("1X")], [None; 3]);
    }
}
