//! Putting a component and its signature into the tools folder, so that whoever looks, at any moment and
//! after any end of this process, finds the old two or the new two, and never one of each.
//!
//! Two files cannot be renamed at once, but one link can. So while both are there to be replaced, `NAME.wasm`
//! and `NAME.wasm.sig` become links through one further link, which is then turned from the old two to the
//! new two:
//!
//! ```text
//! NAME.wasm      ->  .NAME.installing/current/component      .NAME.installing/current -> old, then -> new
//! NAME.wasm.sig  ->  .NAME.installing/current/signature
//! ```
//!
//! Each step before and after that one leaves the content of both as it is. At the end both are plain files
//! again. What a killed install leaves behind serves as it is, and the next install of that name tidies it up
//! first.
//!
//! Others may write into the tools folder. So the folder aside has to be one of this user's that others
//! cannot write into, and every file is made anew: nothing is written through a link that somebody has put
//! there.

use std::fs::{self, File, TryLockError};
use std::io;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use host_setup::component_file::{MOST_SIGNATURE_BYTES, read_bounded};
use rustix::process::geteuid;
use tool_host::MOST_COMPONENT_BYTES;

/// The bits of a mode by which others than the owner may write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// A component and its signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pair {
    pub(super) component: Bytes,
    pub(super) signature: Option<Bytes>,
}

/// What changes something on disk. Each step is whole or not done, except that files below [`Places::aside`]
/// may be half written and half removed.
pub(super) trait Disk {
    fn create_folder(&mut self, path: &Path) -> io::Result<()>;
    fn write(&mut self, path: &Path, content: &[u8]) -> io::Result<()>;
    fn link(&mut self, target: &Path, path: &Path) -> io::Result<()>;
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove(&mut self, path: &Path) -> io::Result<()>;
    fn remove_folder(&mut self, path: &Path) -> io::Result<()>;
}

/// The disk itself. What was done has reached it before the next step.
#[derive(Debug)]
pub(super) struct RealDisk;

/// Where everything is.
struct Places {
    component: PathBuf,
    signature: PathBuf,
    /// The folder for what is not to be seen.
    aside: PathBuf,
    /// Path of `aside`, seen from the tools folder.
    aside_name: PathBuf,
}

/// Installs the two under that name.
pub(super) fn place(disk: &mut impl Disk, folder: &Path, name: &str, new: &Pair) -> anyhow::Result<()> {
    let places = Places::new(folder, name);
    let _lock = lock(folder)?;
    let old = places.read()?;
    let failed = || format!("installing {name} in {}: it is as it was, or as it is to be", folder.display());
    replace(disk, &places, old.as_ref(), new).with_context(failed)
}

fn replace(disk: &mut impl Disk, places: &Places, old: Option<&Pair>, new: &Pair) -> io::Result<()> {
    let aside = &places.aside;
    if let Ok(found) = aside.symlink_metadata() {
        check_own(&found)?;
        // Of an install that did not come to its end.
        if let Some(old) = old {
            settle(disk, places, old)?;
        }
        disk.remove_folder(aside)?;
    }
    disk.create_folder(aside)?;
    if let Some(old) = old.filter(|old| old.component != new.component && old.signature != new.signature) {
        switch(disk, places, old, new)?;
    }
    settle(disk, places, new)?;
    disk.remove_folder(aside)
}

/// Refuses what an install of this user did not leave behind.
fn check_own(found: &fs::Metadata) -> io::Result<()> {
    let is_own =
        found.is_dir() && found.uid() == geteuid().as_raw() && found.mode() & WRITABLE_BY_OTHERS == 0;
    if is_own {
        return Ok(());
    }
    Err(io::Error::other(
        "what lies there as .NAME.installing is no folder that an install of this user has left behind: \
         look at it, and remove it",
    ))
}

/// Makes both files links to the old two, and turns them to the new two in one step.
fn switch(disk: &mut impl Disk, places: &Places, old: &Pair, new: &Pair) -> io::Result<()> {
    let Places { aside, aside_name, .. } = places;
    for (folder, pair) in [("old", old), ("new", new)] {
        let folder = aside.join(folder);
        disk.create_folder(&folder)?;
        disk.write(&folder.join("component"), &pair.component)?;
        if let Some(signature) = &pair.signature {
            disk.write(&folder.join("signature"), signature)?;
        }
    }
    disk.link(Path::new("old"), &aside.join("current"))?;
    for (part, place) in [("signature", &places.signature), ("component", &places.component)] {
        let link = aside.join("link");
        disk.link(&aside_name.join("current").join(part), &link)?;
        disk.rename(&link, place)?;
    }
    disk.link(Path::new("new"), &aside.join("next"))?;
    disk.rename(&aside.join("next"), &aside.join("current"))
}

/// Makes plain files of the two. The signature comes first: where there is no component of that name yet, it
/// is of no effect; elsewhere at most one of the two has another content than before.
fn settle(disk: &mut impl Disk, places: &Places, pair: &Pair) -> io::Result<()> {
    let settled = places.aside.join("settled");
    match &pair.signature {
        Some(signature) => {
            disk.write(&settled, signature)?;
            disk.rename(&settled, &places.signature)?;
        }
        None => disk.remove(&places.signature)?,
    }
    disk.write(&settled, &pair.component)?;
    disk.rename(&settled, &places.component)
}

impl Places {
    fn new(folder: &Path, name: &str) -> Self {
        let aside_name = PathBuf::from(format!(".{name}.installing"));
        Self {
            component: folder.join(format!("{name}.wasm")),
            signature: folder.join(format!("{name}.wasm.sig")),
            aside: folder.join(&aside_name),
            aside_name,
        }
    }

    /// What is there; nothing without a component. The links of an install that was killed are followed, and
    /// no others: what they lead to would be copied to where everybody may read it.
    fn read(&self) -> anyhow::Result<Option<Pair>> {
        self.check_link(&self.component, "component")?;
        self.check_link(&self.signature, "signature")?;
        let component = read_if_there(&self.component, MOST_COMPONENT_BYTES)?;
        let signature = read_if_there(&self.signature, MOST_SIGNATURE_BYTES)?;
        Ok(component.map(|component| Pair { component, signature }))
    }

    /// Refuses a link that no install of this user has made.
    fn check_link(&self, file: &Path, part: &str) -> anyhow::Result<()> {
        let Ok(target) = fs::read_link(file) else { return Ok(()) };
        let is_own = target == self.aside_name.join("current").join(part)
            && self.aside.symlink_metadata().is_ok_and(|found| check_own(&found).is_ok());
        if is_own {
            return Ok(());
        }
        bail!("{} is in the way: it is a link that no install has made; move it elsewhere", file.display())
    }
}

fn read_if_there(file: &Path, most: u64) -> anyhow::Result<Option<Bytes>> {
    // A link to nothing is nothing, as it is for whoever serves the folder.
    if !file.try_exists().unwrap_or(true) {
        return Ok(None);
    }
    let read = read_bounded(file, most);
    read.map(Some).with_context(|| format!("{} is in the way: move it elsewhere", file.display()))
}

/// Keeps a second install of the same folder out until it is dropped, or this process ends.
fn lock(folder: &Path) -> anyhow::Result<File> {
    let opened = File::open(folder).with_context(|| format!("opening {}", folder.display()))?;
    match opened.try_lock() {
        Err(TryLockError::WouldBlock) => {
            bail!("another install to {} is under way: try again when it has ended", folder.display())
        }
        // Not every file system has locks.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(opened),
    }
}

impl Disk for RealDisk {
    fn create_folder(&mut self, path: &Path) -> io::Result<()> {
        // The service may be another user, and reads what lies in it.
        fs::DirBuilder::new().mode(0o755).create(path)
    }

    fn write(&mut self, path: &Path, content: &[u8]) -> io::Result<()> {
        // An install that was killed may have left the half of it. A link would not be followed but refused.
        self.remove(path)?;
        let mut file = File::create_new(path)?;
        file.write_all(content)?;
        file.sync_all()
    }

    fn link(&mut self, target: &Path, path: &Path) -> io::Result<()> {
        symlink(target, path)
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)?;
        let folder = to.parent().map(File::open).transpose()?;
        folder.map_or(Ok(()), |folder| folder.sync_all())
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    fn remove_folder(&mut self, path: &Path) -> io::Result<()> {
        fs::remove_dir_all(path)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    /// Ends after that many steps; of the last one only the half is done, where it can be halved.
    struct Killed {
        steps_left: usize,
    }

    impl Killed {
        fn step(&mut self, half: impl FnOnce()) -> io::Result<()> {
            match self.steps_left.checked_sub(1) {
                Some(left) => self.steps_left = left,
                None => {
                    half();
                    return Err(io::Error::other("killed"));
                }
            }
            Ok(())
        }
    }

    impl Disk for Killed {
        fn create_folder(&mut self, path: &Path) -> io::Result<()> {
            self.step(|| {})?;
            RealDisk.create_folder(path)
        }

        fn write(&mut self, path: &Path, content: &[u8]) -> io::Result<()> {
            self.step(|| fs::write(path, &content[..content.len() / 2]).unwrap())?;
            // Without waiting for the disk, which only a loss of power makes a difference to.
            fs::write(path, content)
        }

        fn link(&mut self, target: &Path, path: &Path) -> io::Result<()> {
            self.step(|| {})?;
            RealDisk.link(target, path)
        }

        fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
            self.step(|| {})?;
            fs::rename(from, to)
        }

        fn remove(&mut self, path: &Path) -> io::Result<()> {
            self.step(|| {})?;
            RealDisk.remove(path)
        }

        fn remove_folder(&mut self, path: &Path) -> io::Result<()> {
            let halve = || {
                for entry in fs::read_dir(path).unwrap().take(1) {
                    let entry = entry.unwrap();
                    let is_folder = entry.file_type().unwrap().is_dir();
                    let remove = if is_folder { fs::remove_dir_all } else { fs::remove_file };
                    remove(entry.path()).unwrap();
                }
            };
            self.step(halve)?;
            RealDisk.remove_folder(path)
        }
    }

    fn pair(component: &'static [u8], signature: Option<&'static [u8]>) -> Pair {
        Pair { component: component.into(), signature: signature.map(Into::into) }
    }

    fn seen(folder: &Path) -> Option<Pair> {
        Places::new(folder, "adder").read().unwrap()
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap())
            .inspect(|entry| assert!(entry.file_type().unwrap().is_file(), "{entry:?}"))
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// From each kind of before to each kind of after, killed at each step, and killed again while the next
    /// install tidies up: what is seen is always the one or the other, and a last install ends well.
    #[test]
    fn whoever_is_killed_at_any_step_leaves_the_old_two_or_the_new_two() {
        let (v1, v2) = (pair(b"version 1", Some(b"by A of 1")), pair(b"version 2", Some(b"by B of 2")));
        let unsigned = |pair: &Pair| Pair { signature: None, ..pair.clone() };
        let resigned = pair(b"version 1", Some(b"by B of 1"));
        let befores = [None, Some(v1.clone()), Some(unsigned(&v1)), Some(v2.clone())];
        let afters = [v2.clone(), unsigned(&v2), resigned];
        let mut kills = 0;
        for before in &befores {
            for after in &afters {
                for steps in 0.. {
                    let folder = tempfile::tempdir().unwrap();
                    let folder = folder.path();
                    if let Some(before) = before {
                        place(&mut Killed { steps_left: usize::MAX }, folder, "adder", before).unwrap();
                    }
                    let ended = place(&mut Killed { steps_left: steps }, folder, "adder", after);
                    let found = seen(folder);
                    assert!(found == *before || found.as_ref() == Some(after), "after {steps}: {found:?}");
                    if ended.is_ok() {
                        break;
                    }
                    kills += 1;
                    for again in 0..4 {
                        let third = pair(b"version 3", Some(b"by C of 3"));
                        let now = seen(folder);
                        let killed = place(&mut Killed { steps_left: again }, folder, "adder", &third);
                        assert!(killed.is_err());
                        assert_eq!(seen(folder), now, "after {steps} and {again}");
                    }
                    place(&mut Killed { steps_left: usize::MAX }, folder, "adder", after).unwrap();
                    assert_eq!(seen(folder).as_ref(), Some(after));
                    let signature = after.signature.as_ref().map(|_| "adder.wasm.sig");
                    let expected: Vec<_> = ["adder.wasm"].into_iter().chain(signature).collect();
                    assert_eq!(names(folder), expected);
                }
            }
        }
        assert!(kills > 50, "{kills}");
    }

    #[test]
    fn a_signature_without_a_component_is_replaced_before_the_component_appears() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        fs::write(folder.join("adder.wasm.sig"), "of something else").unwrap();
        let new = pair(b"version 1", None);
        for steps in 0.. {
            if place(&mut Killed { steps_left: steps }, folder, "adder", &new).is_ok() {
                break;
            }
            let found = seen(folder);
            assert!(found.is_none() || found.as_ref() == Some(&new), "after {steps}: {found:?}");
        }
        assert_eq!((seen(folder), names(folder)), (Some(new), vec!["adder.wasm".to_owned()]));
    }

    /// Another user of the folder plants links where an install works aside: to a folder and to a file of the
    /// operator.
    #[test]
    fn nothing_is_written_through_what_others_have_planted() {
        let (folder, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (folder, secret) = (folder.path(), home.path().join("authorized_keys"));
        fs::write(&secret, "mine").unwrap();
        fs::write(folder.join("adder.wasm"), "theirs").unwrap();
        let aside = folder.join(".adder.installing");
        let install = || place(&mut RealDisk, folder, "adder", &pair(b"version 1", None));
        // A link to a folder of the operator.
        symlink(home.path(), &aside).unwrap();
        let refused = format!("{:#}", install().unwrap_err());
        assert!(refused.contains("no folder that an install of this user has left behind"), "{refused}");
        fs::remove_file(&aside).unwrap();
        // A folder that others may write into, with a link to a file of the operator.
        fs::create_dir(&aside).unwrap();
        fs::set_permissions(&aside, fs::Permissions::from_mode(0o777)).unwrap();
        symlink(&secret, aside.join("settled")).unwrap();
        install().unwrap_err();
        // However it came to lie in a folder of this user: the link is replaced, and not followed.
        fs::set_permissions(&aside, fs::Permissions::from_mode(0o755)).unwrap();
        install().unwrap();
        assert_eq!(fs::read(&secret).unwrap(), b"mine");
        assert_eq!(
            (seen(folder), names(folder)),
            (Some(pair(b"version 1", None)), vec!["adder.wasm".to_owned()])
        );
    }

    /// Another user of the folder plants links to a file of the operator in place of the component, of its
    /// signature, and of what an install leaves aside.
    #[test]
    fn nothing_is_read_through_what_others_have_planted() {
        let home = tempfile::tempdir().unwrap();
        let secret = home.path().join("id_ed25519");
        fs::write(&secret, "the operator's key").unwrap();
        let part_of_aside = |part: &str| format!(".adder.installing/current/{part}");
        for (file, part) in [("adder.wasm", "component"), ("adder.wasm.sig", "signature")] {
            for target in [secret.clone(), part_of_aside(part).into()] {
                let folder = tempfile::tempdir().unwrap();
                let folder = folder.path();
                fs::write(folder.join("adder.wasm"), "theirs").unwrap();
                if target != secret {
                    // The right name, in a folder that others may write into.
                    let current = folder.join(".adder.installing/current");
                    fs::create_dir_all(&current).unwrap();
                    fs::set_permissions(current.parent().unwrap(), fs::Permissions::from_mode(0o777))
                        .unwrap();
                    symlink(&secret, current.join(part)).unwrap();
                }
                RealDisk.remove(&folder.join(file)).unwrap();
                symlink(&target, folder.join(file)).unwrap();
                let refused = place(&mut RealDisk, folder, "adder", &pair(b"version 1", Some(b"by A")));
                let refused = format!("{:#}", refused.unwrap_err());
                assert!(refused.contains("is in the way: it is a link"), "{refused}");
                assert_eq!(fs::read_link(folder.join(file)).unwrap(), target, "it is as it was");
            }
        }
        assert_eq!(fs::read(&secret).unwrap(), b"the operator's key");
    }

    #[test]
    fn two_installs_to_one_folder_do_not_mix() {
        let folder = tempfile::tempdir().unwrap();
        let first = lock(folder.path()).unwrap();
        let second = place(&mut RealDisk, folder.path(), "adder", &pair(b"x", None)).unwrap_err();
        assert!(second.to_string().contains("under way"), "{second:#}");
        drop(first);
        place(&mut RealDisk, folder.path(), "adder", &pair(b"x", None)).unwrap();
    }

    #[test]
    fn what_is_in_the_way_is_named_and_stays() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("adder.wasm")).unwrap();
        let error = place(&mut RealDisk, folder.path(), "adder", &pair(b"x", None)).unwrap_err();
        let error = format!("{error:#}");
        assert!(error.contains("adder.wasm is in the way") && error.contains("it is no file"), "{error}");
    }
}
