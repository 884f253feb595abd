//! The first page: what is configured, and what is to be done next. It tells nothing that is not public.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;

use super::{Dashboard, page};

#[derive(Template)]
#[template(path = "home.html")]
struct Home {
    version: &'static str,
    configured: bool,
    app_page: Option<String>,
    model: String,
}

/// `GET /`.
pub async fn show(State(dashboard): State<Arc<Dashboard>>) -> Response {
    let home = Home {
        version: env!("CARGO_PKG_VERSION"),
        configured: dashboard.github.get().is_some(),
        app_page: dashboard.app_page(),
        model: dashboard.settings.model.clone(),
    };
    page(StatusCode::OK, &home, None)
}
