//! [`NamePattern`]: a shell pattern for paths.

/// A pattern of path components: `*` matches any characters and `?` exactly one, `[a-z]` and `[!a-z]` one inside or
/// outside a set, and a component `**` any number of folders, including none. As in Python's `glob`, a name that begins
/// with a dot is matched only by a component that begins with one.
#[derive(Debug)]
pub(crate) struct NamePattern {
    components: Vec<Vec<Letter>>,
}

impl NamePattern {
    pub(crate) fn new(pattern: &[u8]) -> Self {
        let components = pattern.split(|byte| *byte == b'/').filter(|component| !component.is_empty());
        Self { components: components.map(letters).collect() }
    }

    /// True if the pattern matches `path`, which is relative, with `/` between its components.
    pub(crate) fn matches(&self, path: &[u8]) -> bool {
        let path: Vec<Vec<Letter>> = path.split(|byte| *byte == b'/').map(letters).collect();
        // From the last component backward: `rest[at]` says if the components so far match the path from `at` on.
        let mut rest = vec![false; path.len() + 1];
        rest[path.len()] = true;
        for component in self.components.iter().rev() {
            let mut current = vec![false; path.len() + 1];
            let folders = component.as_slice() == [STAR, STAR];
            for at in (0..path.len()).rev() {
                current[at] = match folders {
                    // A trailing `**` matches at least one name: a file is not below itself.
                    true => rest[at] || ((current[at + 1] || rest[at + 1]) && !path[at].starts_with(&[DOT])),
                    false => rest[at + 1] && name_matches(component, &path[at]),
                };
            }
            rest = current;
        }
        rest[0]
    }
}

/// A character of a name, or a byte that is not UTF-8, as a number that no character has.
pub(super) type Letter = u32;

const STAR: Letter = b'*' as Letter;
const DOT: Letter = b'.' as Letter;
const OPEN: Letter = b'[' as Letter;

/// The first number that is not a character: Python, too, maps bytes that are not UTF-8 to numbers from here on.
const NO_CHARACTER: Letter = 0xDC00;

/// Splits a name into characters: `?` matches one of these, not one byte. As in Python's `glob`, a byte that is not
/// UTF-8 counts as a character.
pub(super) fn letters(name: &[u8]) -> Vec<Letter> {
    let mut letters = Vec::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        letters.extend(chunk.valid().chars().map(Letter::from));
        letters.extend(chunk.invalid().iter().map(|byte| NO_CHARACTER + Letter::from(*byte)));
    }
    letters
}

/// True if `pattern`, one component of a [`NamePattern`], matches `name`.
pub(super) fn name_matches(pattern: &[Letter], name: &[Letter]) -> bool {
    if name.starts_with(&[DOT]) && !pattern.starts_with(&[DOT]) {
        return false;
    }
    // Where to resume if what follows the last `*` does not match: after it, one character later in the name.
    let (mut at, mut letter, mut star) = (0, 0, None);
    while letter < name.len() {
        if pattern.get(at) == Some(&STAR) {
            star = Some((at, letter));
            at += 1;
        } else if let Some(next) = one_matches(&pattern[at..], name[letter]) {
            (at, letter) = (at + next, letter + 1);
        } else if let Some((star_at, from)) = star {
            (at, letter) = (star_at + 1, from + 1);
            star = Some((star_at, from + 1));
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|letter| *letter == STAR)
}

/// The length of the first element of `pattern`, if it matches `letter`.
fn one_matches(pattern: &[Letter], letter: Letter) -> Option<usize> {
    const ANY: Letter = b'?' as Letter;
    match *pattern.first()? {
        ANY => Some(1),
        OPEN => {
            let negated = pattern.get(1) == Some(&Letter::from(b'!'));
            let start = 1 + usize::from(negated);
            // A `]` that comes first is a member of the set; a `[` without an end is a plain character.
            let Some(end) = (start + 1..pattern.len()).find(|&end| pattern[end] == Letter::from(b']')) else {
                return (letter == OPEN).then_some(1);
            };
            (is_one_of(&pattern[start..end], letter) != negated).then_some(end + 1)
        }
        plain => (plain == letter).then_some(1),
    }
}

fn is_one_of(mut letters: &[Letter], letter: Letter) -> bool {
    const DASH: Letter = b'-' as Letter;
    while let [first, rest @ ..] = letters {
        if let [DASH, last, rest @ ..] = rest {
            if (*first..=*last).contains(&letter) {
                return true;
            }
            letters = rest;
        } else {
            if *first == letter {
                return true;
            }
            letters = rest;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_like_in_a_shell() {
        let cases: [(&str, &[&str], &[&str]); 9] = [
            ("*.jpg", &["a.jpg", "a.b.jpg"], &["a.jpeg", "x/a.jpg", ".jpg", ".a.jpg"]),
            ("*/*.jpg", &["x/a.jpg"], &["a.jpg", "x/y/a.jpg", ".x/a.jpg"]),
            ("**/*.jpg", &["a.jpg", "x/a.jpg", "x/y/a.jpg"], &["x/a.png", ".x/a.jpg", "x/.y/a.jpg"]),
            ("x/**", &["x/a", "x/y/a"], &["a", "y/a", "x", "x/.a"]),
            ("?[0-9][!a]*", &["a0b", "_9_x"], &["a0a", "aab", "a0"]),
            (".*/[]x]", &[".a/]", ".a/x"], &["a/x", ".a/["]),
            ("a**b", &["ab", "axxb"], &["a/b"]),
            ("[x", &["[x"], &["x"]),
            ("?/[à-é]*", &["ñ/é", "日/àb"], &["ab/é", "a/x", "a/ñ"]),
        ];
        for (pattern, meant, others) in cases {
            let pattern = NamePattern::new(pattern.as_bytes());
            meant.iter().for_each(|path| assert!(pattern.matches(path.as_bytes()), "{pattern:?} {path}"));
            others.iter().for_each(|path| assert!(!pattern.matches(path.as_bytes()), "{pattern:?} {path}"));
        }
    }

    #[test]
    fn each_invalid_utf_8_byte_is_one_character() {
        let name = b"\xe6\x97.\xff";
        let matches = |pattern: &str| NamePattern::new(pattern.as_bytes()).matches(name);
        assert!(matches("??.?") && !matches("?.?"));
        let one = NamePattern::new(b"*\xff");
        assert!(one.matches(name) && !one.matches(b"\xe6\x97.\xfe"));
    }

    #[test]
    fn many_stars_match_in_linear_time() {
        let pattern = NamePattern::new("*a*a*a*a*a*a*a*a*a*a*b".as_bytes());
        assert!(!pattern.matches(&[b'a'; 5000]));
        let folders = NamePattern::new("**/".repeat(50).as_bytes());
        assert!(folders.matches("x/".repeat(500).trim_end_matches('/').as_bytes()));
    }
}
