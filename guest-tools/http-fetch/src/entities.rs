//! Characters by their names in HTML: those of Latin-1 and of punctuation.

/// What U+00A0 to U+00FF are called, in order.
const LATIN_1: &str = "nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn sup2 sup3 \
acute micro para middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest Agrave Aacute Acirc Atilde Auml Aring AElig Ccedil \
Egrave Eacute Ecirc Euml Igrave Iacute Icirc Iuml ETH Ntilde Ograve Oacute Ocirc Otilde Ouml times Oslash Ugrave Uacute Ucirc \
Uuml Yacute THORN szlig agrave aacute acirc atilde auml aring aelig ccedil egrave eacute ecirc euml igrave iacute icirc iuml \
eth ntilde ograve oacute ocirc otilde ouml divide oslash ugrave uacute ucirc uuml yacute thorn yuml";

const OTHERS: [(&str, char); 28] = [
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
    ("ndash", '–'),
    ("mdash", '—'),
    ("hellip", '…'),
    ("lsquo", '‘'),
    ("rsquo", '’'),
    ("sbquo", '‚'),
    ("ldquo", '“'),
    ("rdquo", '”'),
    ("bdquo", '„'),
    ("lsaquo", '‹'),
    ("rsaquo", '›'),
    ("bull", '•'),
    ("euro", '€'),
    ("trade", '™'),
    ("larr", '←'),
    ("rarr", '→'),
    ("uarr", '↑'),
    ("darr", '↓'),
    ("minus", '−'),
    ("le", '≤'),
    ("ge", '≥'),
    ("ne", '≠'),
    ("thinsp", ' '),
];

/// The longest name that is looked at, in bytes.
const LONGEST: usize = 10;

/// The character that stands behind `&`, and what is behind its `;`.
pub(crate) fn read(text: &str) -> Option<(char, &str)> {
    let end = text.bytes().take(LONGEST).position(|byte| byte == b';')?;
    let name = text.get(..end)?;
    Some((find(name)?, text.get(end + 1..)?))
}

fn find(name: &str) -> Option<char> {
    if let Some(number) = name.strip_prefix('#') {
        let number = match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16),
            None => number.parse(),
        };
        return char::from_u32(number.ok()?);
    }
    if let Some((_, one)) = OTHERS.iter().find(|(own, _)| *own == name) {
        return Some(*one);
    }
    let index = LATIN_1.split(' ').position(|own| own == name)?;
    char::from_u32(0xa0 + u32::try_from(index).ok()?)
}

/// Text with its entities resolved.
pub(crate) fn resolve(text: &str) -> String {
    let mut resolved = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('&') {
        resolved.push_str(before);
        match read(behind) {
            Some((one, behind)) => {
                resolved.push(one);
                rest = behind;
            }
            None => {
                resolved.push('&');
                rest = behind;
            }
        }
    }
    resolved + rest
}

#[cfg(test)]
mod tests {
    use super::resolve;

    #[test]
    fn entities_are_resolved() {
        for (text, resolved) in [
            ("A &amp; B &lt;&#8230;&#x20AC;&gt;", "A & B <…€>"),
            ("&nbsp;&iexcl;&szlig;&yuml;&Auml;", "\u{a0}¡ßÿÄ"),
            ("&unknown; &; & &#xD800; &amp", "&unknown; &; & &#xD800; &amp"),
            ("&ä;", "&ä;"),
        ] {
            assert_eq!(resolve(text), resolved);
        }
    }
}
