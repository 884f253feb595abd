//! What the system says of the memory of this process: how much it uses, and how much its control group allows. Reading
//! is the thin edge; what the texts mean is pure. Elsewhere than on Linux nothing is said.

use std::path::Path;

/// A limit at least this large is version 1's way to say that there is none.
const NO_LIMIT: u64 = 1 << 60;

/// Share of a control group's limit that is used, in percent: at the limit the process is killed, and what the system
/// keeps for it (buffers, page tables) counts there too.
const USED_PERCENT: u64 = 90;

/// Bytes of memory this process has in use (its resident set), where the system tells.
pub fn used() -> Option<u64> {
    resident(&read("/proc/self/status")?)
}

/// The ceiling that the control group of this process sets, in bytes, if it sets one.
pub fn allowed() -> Option<u64> {
    let groups = read("/proc/self/cgroup")?;
    let limits = limit_files(&groups).into_iter().filter_map(|file| limit(&read(&file)?));
    limits.min().map(|limit| limit / 100 * USED_PERCENT)
}

fn read(path: &str) -> Option<String> {
    // A file that is not there is the usual case on other systems.
    std::fs::read_to_string(Path::new(path)).ok()
}

/// `VmRSS` of `/proc/self/status`, which counts in KiB whatever the size of a page.
fn resident(status: &str) -> Option<u64> {
    let value = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1 << 10)
}

/// The files that may hold a limit: of the group and of all above it, in both versions. Inside of a container the group's
/// path is often the host's, so that the mount itself counts too.
fn limit_files(groups: &str) -> Vec<String> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next()) else { continue };
        let (mount, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|one| one == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let mut path = path.trim_matches('/');
        while !path.is_empty() {
            files.push(format!("{mount}/{path}/{file}"));
            path = path.rsplit_once('/').map_or("", |(above, _)| above);
        }
        files.push(format!("{mount}/{file}"));
    }
    files
}

/// A limit in bytes; `max` and what version 1 says instead are none.
fn limit(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|limit| *limit < NO_LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_resident_set_is_read_from_the_status() {
        assert_eq!(resident("Name:\tx\nVmHWM:\t  9 kB\nVmRSS:\t   1024 kB\nVmData:\t 5 kB\n"), Some(1 << 20));
        for odd in ["", "VmRSS:", "VmRSS: many kB", "VmRSS: 12 MB", "VmRSS: 99999999999999999999 kB"] {
            assert_eq!(resident(odd), None, "{odd}");
        }
    }

    #[test]
    fn limits_are_looked_for_up_to_the_root_in_both_versions() {
        assert_eq!(
            limit_files("0::/system.slice/docker-1.scope\n"),
            [
                "/sys/fs/cgroup/system.slice/docker-1.scope/memory.max",
                "/sys/fs/cgroup/system.slice/memory.max",
                "/sys/fs/cgroup/memory.max",
            ]
        );
        assert_eq!(
            limit_files("5:cpu,cpuacct:/a\n4:memory:/docker/1\nodd\n"),
            [
                "/sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/docker/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes",
            ]
        );
        assert_eq!(limit_files("0::/"), ["/sys/fs/cgroup/memory.max"]);
    }

    #[test]
    fn no_limit_is_said_in_two_ways() {
        assert_eq!(limit("536870912\n"), Some(512 << 20));
        assert_eq!((limit("max\n"), limit("9223372036854771712\n"), limit("")), (None, None, None));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_uses_something() {
        assert!(used().is_some_and(|used| used > 1 << 20));
    }
}
