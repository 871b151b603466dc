//! Providers against local servers that answer as their documentation says.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::disallowed_methods, reason = "test code")]

mod answers;
mod chat;
mod destinations;
mod letters;
mod mail;
mod phones;
mod receipts;
mod redaction;
mod sms;
mod smtp;
mod stub;
mod trouble;
mod whatsapp;
