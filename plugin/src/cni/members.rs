//! A JSON object whose members keep their order and their text.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{MapAccess, Visitor},
    ser::SerializeMap as _,
};
use serde_json::value::RawValue;

/// The members of an object, each value as it was written (number forms, escapes, spaces).
#[derive(Debug, Clone, Default)]
pub(super) struct Members(Vec<(String, Box<RawValue>)>);

impl Members {
    /// The value of a member; of repeated ones the last holds, as everywhere.
    pub(super) fn get(&self, name: &str) -> Option<&RawValue> {
        let found = self.0.iter().rev().find(|(key, _)| key == name);
        found
            .map(|(_, value)| &**value)
            .filter(|value| value.get() != "null")
    }

    /// Whether the member is there, be it null.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(key, _)| key == name)
    }

    /// Sets a member, in its place if it is there, else in the first.
    pub(super) fn set(&mut self, name: &str, value: &impl Serialize) {
        let Ok(value) = serde_json::value::to_raw_value(value) else {
            return;
        };
        match self.0.iter().position(|(key, _)| key == name) {
            Some(index) => {
                self.0[index].1 = value;
                let mut place = 0;
                self.0.retain(|(key, _)| {
                    place += 1;
                    place - 1 <= index || key != name
                });
            }
            None => self.0.insert(0, (name.to_owned(), value)),
        }
    }
}

impl Serialize for Members {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = Members;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(Object)
    }
}
