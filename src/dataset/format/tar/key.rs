//! Assigns members to samples by WebDataset's naming conventions.

/// Splits the path `name` into key and extension: the key is everything before the first dot of the last component, the
/// extension everything after that dot. `None` if the member is not part of a sample: without a dot, hidden (the dot
/// comes first), or below or named `__…__`, WebDataset's names for metadata of the archive.
///
/// The caller must convert the extension to lower case.
pub(super) fn split_name(name: &[u8]) -> Option<(&[u8], &[u8])> {
    let base = name.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    let dot = base + name[base..].iter().position(|&byte| byte == b'.')?;
    let first = name.split(|&byte| byte == b'/').next().unwrap_or_default();
    let is_meta = first.len() > 4 && first.starts_with(b"__") && first.ends_with(b"__");
    (dot > base && !is_meta).then(|| (&name[..dot], &name[dot + 1..]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_split_at_the_first_dot_of_the_file_name() {
        let split = |name: &'static str| {
            split_name(name.as_bytes()).map(|(key, ext)| (str::from_utf8(key).unwrap(), str::from_utf8(ext).unwrap()))
        };
        assert_eq!(split("a.jpg"), Some(("a", "jpg")));
        assert_eq!(split("train.v1/a.seg.PNG"), Some(("train.v1/a", "seg.PNG")));
        assert_eq!(split("../../etc/a.jpg"), Some(("../../etc/a", "jpg")));
        assert_eq!(split("/a.jpg"), Some(("/a", "jpg")));
        assert_eq!(split("./a.jpg"), Some(("./a", "jpg")));
        assert_eq!(split("a."), Some(("a", "")));
        for none in ["a", "a.b/c", ".hidden", "d/.hidden.jpg", "", "__meta__/a.jpg", "d/"] {
            assert_eq!(split(none), None, "{none}");
        }
        assert_eq!(split("__a.jpg"), Some(("__a", "jpg")));
        assert_eq!(split("____/a.jpg"), Some(("____/a", "jpg")));
    }

    proptest! {
        #[test]
        fn key_and_extension_join_to_the_name(name in "[a./_]{0,12}") {
            if let Some((key, extension)) = split_name(name.as_bytes()) {
                prop_assert_eq!([key, b".", extension].concat(), name.as_bytes());
                prop_assert!(!extension.contains(&b'/') && !key.is_empty());
            }
        }
    }
}
