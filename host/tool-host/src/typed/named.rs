//! The names of an enum or of flags, and the cases of a variant: in the type's order, and found by name
//! without a walk over all of them. A component may declare thousands, and return a list of as many values as
//! fit into an answer, each of which is looked up.

use std::ops::Deref;

/// A part of a type that is found by its name.
pub(super) trait HasName {
    fn name(&self) -> &str;
}

impl HasName for String {
    fn name(&self) -> &str {
        self
    }
}

/// Parts of a type. No two have one name: the component would not be valid.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Named<T> {
    parts: Vec<T>,
    /// The positions of the parts, in the order of their names.
    by_name: Vec<usize>,
}

impl<T: HasName> Named<T> {
    pub(super) fn find(&self, name: &str) -> Option<&T> {
        let name_at = |position: usize| self.parts.get(position).map(HasName::name);
        let found = self.by_name.binary_search_by(|position| name_at(*position).cmp(&Some(name))).ok()?;
        self.parts.get(*self.by_name.get(found)?)
    }
}

impl<T: HasName> From<Vec<T>> for Named<T> {
    fn from(parts: Vec<T>) -> Self {
        let mut by_name: Vec<usize> = (0..parts.len()).collect();
        by_name.sort_by_key(|position| parts.get(*position).map(HasName::name));
        Self { parts, by_name }
    }
}

impl<T: HasName> FromIterator<T> for Named<T> {
    fn from_iter<I: IntoIterator<Item = T>>(parts: I) -> Self {
        Self::from(parts.into_iter().collect::<Vec<_>>())
    }
}

impl<T> Deref for Named<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_found_by_its_name_and_the_order_is_the_types() {
        let names = ["small", "large", "a", "x-large", "medium"];
        let named: Named<String> = names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(*named, names.map(str::to_owned));
        for name in names {
            assert_eq!(named.find(name).map(String::as_str), Some(name));
        }
        for name in ["", "b", "smal", "smaller", "z"] {
            assert_eq!(named.find(name), None, "{name:?}");
        }
        assert_eq!(Named::<String>::from(vec![]).find("a"), None);
    }
}
