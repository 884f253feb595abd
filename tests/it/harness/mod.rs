//! What the integration tests stand on.

pub(crate) mod bot;
pub(crate) mod clock;
pub(crate) mod database;
pub(crate) mod delivery;
pub(crate) mod github;
pub(crate) mod knowing;
pub(crate) mod material;
pub(crate) mod model;
pub(crate) mod postgres;
