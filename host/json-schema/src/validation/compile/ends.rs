//! Whether following a schema that refers to itself ends.

use crate::validation::rules::{Id, Keyword, Part};

/// How many parts are held against one value within one another, at most; nothing when there is no end to
/// them. A part ends when all that it holds against its own value do.
pub(super) fn most_in_place(parts: &[Part]) -> Option<u32> {
    let in_place = |part: &Part| match part {
        Part::Never => vec![],
        Part::All(keywords) => keywords.iter().flat_map(Keyword::in_place).collect(),
    };
    let in_place: Vec<Vec<Id>> = parts.iter().map(in_place).collect();
    let mut heights: Vec<Option<u32>> = vec![None; parts.len()];
    loop {
        let mut has_changed = false;
        // What a part leads to mostly stands behind it.
        for (id, below) in in_place.iter().enumerate().rev() {
            let height = below.iter().try_fold(0, |most: u32, part| Some(most.max((*heights.get(*part)?)?)));
            if let (Some(height), Some(own @ None)) = (height, heights.get_mut(id)) {
                *own = Some(height + 1);
                has_changed = true;
            }
        }
        if !has_changed {
            return heights.into_iter().try_fold(0, |most, height| Some(most.max(height?)));
        }
    }
}
