//! `EndpointPickerConfig`, as llm-d reads it, turned into a workflow of stock plugins.
