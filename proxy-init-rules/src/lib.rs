//! The linkerd configuration schema and the redirect rules made from it.
