/** Made by tools/typescript.py from docs/reference/openapi.json. */

export interface paths {
    "/v1/audits": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List stored audits, newest first
         * @description The key needs the scope `read`.
         */
        get: operations["get_audits"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/audits/{audit}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get an audit, and what changed since the previous one
         * @description The key needs the scope `read`.
         */
        get: operations["get_audits_audit"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/audits/{audit}/report": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get the full report of an audit as an HTML page
         * @description The key needs the scope `read`.
         */
        get: operations["get_audits_audit_report"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/changes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Stream what has changed, and changes as they happen
         * @description The key needs the scope `read`.
         */
        get: operations["get_changes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/context": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a window, the user's documents and unfinished work in one read
         * @description The key needs the scope `read`.
         */
        get: operations["get_context"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/conversations": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Create a conversation, as OpenAI's clients do
         * @description The key needs the scope `write`.
         */
        post: operations["post_conversations"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/conversations/{conversation}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a conversation and its metadata
         * @description The key needs the scope `read`.
         */
        get: operations["get_conversations_conversation"];
        put?: never;
        /**
         * Replace the metadata of a conversation
         * @description The key needs the scope `write`.
         */
        post: operations["post_conversations_conversation"];
        /**
         * Remove a conversation with its items
         * @description The key needs the scope `write`.
         */
        delete: operations["delete_conversations_conversation"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/conversations/{conversation}/items": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List a conversation's items
         * @description The key needs the scope `read`.
         */
        get: operations["get_conversations_conversation_items"];
        put?: never;
        /**
         * Add items to a conversation, all or none
         * @description The key needs the scope `write`.
         */
        post: operations["post_conversations_conversation_items"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/conversations/{conversation}/items/{item}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get an item of a conversation
         * @description The key needs the scope `read`.
         */
        get: operations["get_conversations_conversation_items_item"];
        put?: never;
        post?: never;
        /**
         * Remove an item from a conversation
         * @description The key needs the scope `write`.
         */
        delete: operations["delete_conversations_conversation_items_item"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/effects": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List effects: what tools did, or may have done
         * @description The key needs the scope `read`.
         */
        get: operations["get_effects"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/effects/{effect}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get an effect
         * @description The key needs the scope `read`.
         */
        get: operations["get_effects_effect"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/effects/{effect}/resolve": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Record the outcome of an effect that is unknown or failed
         * @description The key needs the scope `operate`.
         */
        post: operations["post_effects_effect_resolve"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/find": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Find by id, by user or by correlation id
         * @description The key needs the scope `operate`.
         */
        get: operations["get_find"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/health": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Check the store, with breaker, spill and alarms; 200 even if it does not answer
         * @description The key needs the scope `operate`.
         */
        get: operations["get_health"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/journals/{journal}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /**
         * Remove a journal
         * @description The key needs the scope `write`.
         */
        delete: operations["delete_journals_journal"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/journals/{journal}/changes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Stream every event after a cursor, and new ones as they arrive
         * @description The key needs the scope `read`.
         */
        get: operations["get_journals_journal_changes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/journals/{journal}/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Publish events, all or none
         * @description The key needs the scope `write`.
         */
        post: operations["post_journals_journal_events"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/key": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get the permissions of the key that makes the request
         * @description The key needs the scope `read`.
         */
        get: operations["get_key"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/keys": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List keys by id
         * @description The key needs the scope `admin`.
         */
        get: operations["get_keys"];
        put?: never;
        /**
         * Create a key; it is shown only in this response
         * @description The key needs the scope `admin`.
         */
        post: operations["post_keys"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/keys/{key}/revoke": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Revoke a key; it is refused within five seconds
         * @description The key needs the scope `admin`.
         */
        post: operations["post_keys_key_revoke"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/kinds/{kind}/pause": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Pause a kind of workflow: workers take none of it
         * @description The key needs the scope `operate`.
         */
        post: operations["post_kinds_kind_pause"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/kinds/{kind}/resume": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Resume a kind of workflow
         * @description The key needs the scope `operate`.
         */
        post: operations["post_kinds_kind_resume"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/kinds/paused": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the kinds of workflows that are paused
         * @description The key needs the scope `read`.
         */
        get: operations["get_kinds_paused"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/locks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List locks and leaders with their holders
         * @description The key needs the scope `read`.
         */
        get: operations["get_locks"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/locks/{lock}/break": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Break a lock that is held with this token
         * @description The key needs the scope `operate`.
         */
        post: operations["post_locks_lock_break"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/namespaces": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the namespaces that the key has access to
         * @description The key needs the scope `operate`.
         */
        get: operations["get_namespaces"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/openapi.json": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get this API as OpenAPI 3.1
         * @description The key needs the scope `read`.
         */
        get: operations["get_openapi_json"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/operations-log": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List manual changes, newest first
         * @description The key needs the scope `operate`.
         */
        get: operations["get_operations_log"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/operations-log/export": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Export the operations log with its hashes, one JSON object per line
         * @description The key needs the scope `operate`.
         */
        get: operations["get_operations_log_export"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/operations-log/verify": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Check the operations log for tampering
         * @description The key needs the scope `operate`.
         */
        get: operations["get_operations_log_verify"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/replicas": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the processes that have the store open, by their heartbeats
         * @description The key needs the scope `operate`.
         */
        get: operations["get_replicas"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/schedules": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List schedules by id
         * @description The key needs the scope `read`.
         */
        get: operations["get_schedules"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/schedules/{schedule}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a schedule
         * @description The key needs the scope `read`.
         */
        get: operations["get_schedules_schedule"];
        /**
         * Create or replace a schedule
         * @description The key needs the scope `write`.
         */
        put: operations["put_schedules_schedule"];
        post?: never;
        /**
         * Delete a schedule
         * @description The key needs the scope `operate`.
         */
        delete: operations["delete_schedules_schedule"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/schedules/{schedule}/pause": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Pause a schedule
         * @description The key needs the scope `operate`.
         */
        post: operations["post_schedules_schedule_pause"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/schedules/{schedule}/resume": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Resume a schedule
         * @description The key needs the scope `operate`.
         */
        post: operations["post_schedules_schedule_resume"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/shared/{shared}/documents": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the documents that agents share by name
         * @description The key needs the scope `read`.
         */
        get: operations["get_shared_shared_documents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/shared/{shared}/documents/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get one of the documents that agents share, now or at an earlier time
         * @description The key needs the scope `read`.
         */
        get: operations["get_shared_shared_documents_name"];
        /**
         * Replace or create one of the documents that agents share
         * @description The key needs the scope `write`.
         */
        put: operations["put_shared_shared_documents_name"];
        post?: never;
        /**
         * Remove one of the documents that agents share
         * @description The key needs the scope `write`.
         */
        delete: operations["delete_shared_shared_documents_name"];
        options?: never;
        head?: never;
        /**
         * Apply a JSON merge patch to one of the documents that agents share
         * @description The key needs the scope `write`.
         */
        patch: operations["patch_shared_shared_documents_name"];
        trace?: never;
    };
    "/v1/shared/{shared}/documents/{name}/diff": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Compare two versions of one of the documents that agents share
         * @description The key needs the scope `read`.
         */
        get: operations["get_shared_shared_documents_name_diff"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/shared/{shared}/documents/{name}/history": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the versions of one of the documents that agents share
         * @description The key needs the scope `read`.
         */
        get: operations["get_shared_shared_documents_name_history"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/shared/{shared}/documents/{name}/undo": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Restore an earlier version of one of the documents that agents share
         * @description The key needs the scope `write`.
         */
        post: operations["post_shared_shared_documents_name_undo"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/signals": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get what the processes measured over time, and what it concerned
         * @description The key needs the scope `read`.
         */
        get: operations["get_signals"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/storage": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Count what the namespace holds, by kind, and get the size of the store
         * @description The key needs the scope `operate`.
         */
        get: operations["get_storage"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/storage/largest": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the longest of the most recently changed conversations
         * @description The key needs the scope `operate`.
         */
        get: operations["get_storage_largest"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tasks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List tasks, newest first
         * @description The key needs the scope `read`.
         */
        get: operations["get_tasks"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tasks/{task}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a task
         * @description The key needs the scope `read`.
         */
        get: operations["get_tasks_task"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tasks/{task}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Cancel a task; if it is running, discard its result
         * @description The key needs the scope `operate`.
         */
        post: operations["post_tasks_task_cancel"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/tasks/{task}/retry": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Run a failed or cancelled task again
         * @description The key needs the scope `operate`.
         */
        post: operations["post_tasks_task_retry"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/threads": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List conversations, newest first
         * @description The key needs the scope `read`.
         */
        get: operations["get_threads"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/threads/{thread}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a window of a conversation
         * @description The key needs the scope `read`.
         */
        get: operations["get_threads_thread"];
        put?: never;
        post?: never;
        /**
         * Remove a conversation
         * @description The key needs the scope `write`.
         */
        delete: operations["delete_threads_thread"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/threads/{thread}/about": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a conversation's title, labels, variables, summary, origin and late turns
         * @description The key needs the scope `read`.
         */
        get: operations["get_threads_thread_about"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/threads/{thread}/archive": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Archive a conversation: keep it, but leave it out of lists
         * @description The key needs the scope `write`.
         */
        post: operations["post_threads_thread_archive"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/threads/{thread}/branches": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the conversations that were forked from this one
         * @description The key needs the scope `read`.
         */
        get: operations["get_threads_thread_branches"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/threads/{thread}/changes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Stream every message after a cursor, and new ones as they arrive
         * @description The key needs the scope `read`.
         */
        get: operations["get_threads_thread_changes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/threads/{thread}/describe": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Set a conversation's title and labels
         * @description The key needs the scope `write`.
         */
        post: operations["post_threads_thread_describe"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/threads/{thread}/fork": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Fork a conversation: start another one with its messages
         * @description The key needs the scope `write`.
         */
        post: operations["post_threads_thread_fork"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/threads/{thread}/knew/{version}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get what the agent was given when it wrote the turn of a message
         * @description The key needs the scope `read`.
         */
        get: operations["get_threads_thread_knew_version"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/threads/{thread}/messages": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List messages with times, receipts and, on request, signs of lost context
         * @description The key needs the scope `read`.
         */
        get: operations["get_threads_thread_messages"];
        put?: never;
        /**
         * Append messages, all or none
         * @description The key needs the scope `write`.
         */
        post: operations["post_threads_thread_messages"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/threads/{thread}/unarchive": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Unarchive a conversation: show it in lists again
         * @description The key needs the scope `write`.
         */
        post: operations["post_threads_thread_unarchive"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/users": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List users by id
         * @description The key needs the scope `operate`.
         */
        get: operations["get_users"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/users/{user}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Count what a user has, by kind
         * @description The key needs the scope `read`.
         */
        get: operations["get_users_user"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/users/{user}/documents": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List a user's documents by name
         * @description The key needs the scope `read`.
         */
        get: operations["get_users_user_documents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/users/{user}/documents/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get one of a user's documents, now or at an earlier time
         * @description The key needs the scope `read`.
         */
        get: operations["get_users_user_documents_name"];
        /**
         * Replace or create one of a user's documents
         * @description The key needs the scope `write`.
         */
        put: operations["put_users_user_documents_name"];
        post?: never;
        /**
         * Remove one of a user's documents
         * @description The key needs the scope `write`.
         */
        delete: operations["delete_users_user_documents_name"];
        options?: never;
        head?: never;
        /**
         * Apply a JSON merge patch to one of a user's documents
         * @description The key needs the scope `write`.
         */
        patch: operations["patch_users_user_documents_name"];
        trace?: never;
    };
    "/v1/users/{user}/documents/{name}/diff": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Compare two versions of one of a user's documents
         * @description The key needs the scope `read`.
         */
        get: operations["get_users_user_documents_name_diff"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/users/{user}/documents/{name}/history": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the versions of one of a user's documents
         * @description The key needs the scope `read`.
         */
        get: operations["get_users_user_documents_name_history"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/users/{user}/documents/{name}/undo": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Restore an earlier version of one of a user's documents
         * @description The key needs the scope `write`.
         */
        post: operations["post_users_user_documents_name_undo"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/users/{user}/erase": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Permanently remove everything that belongs to a user
         * @description The key needs the scope `operate`.
         */
        post: operations["post_users_user_erase"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/users/{user}/export": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Export everything that belongs to a user, one JSON object per line
         * @description The key needs the scope `operate`.
         */
        get: operations["get_users_user_export"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/waiting": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List the open questions of workflows, oldest first
         * @description The key needs the scope `read`.
         */
        get: operations["get_waiting"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/waiting/{question}/answer": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Answer a question; the first answer counts
         * @description The key needs the scope `write`.
         */
        post: operations["post_waiting_question_answer"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/workflows": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List workflows, newest first
         * @description The key needs the scope `read`.
         */
        get: operations["get_workflows"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/workflows/{workflow}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Get a workflow
         * @description The key needs the scope `read`.
         */
        get: operations["get_workflows_workflow"];
        put?: never;
        post?: never;
        /**
         * Delete a workflow that no process is driving
         * @description The key needs the scope `operate`.
         */
        delete: operations["delete_workflows_workflow"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/workflows/{workflow}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Cancel a workflow and its children
         * @description The key needs the scope `operate`.
         */
        post: operations["post_workflows_workflow_cancel"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/workflows/{workflow}/fork": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Fork a workflow: start another one from before one of its steps
         * @description The key needs the scope `operate`.
         */
        post: operations["post_workflows_workflow_fork"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/workflows/{workflow}/records": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * List a workflow's records: steps with their results, signals, waits
         * @description The key needs the scope `read`.
         */
        get: operations["get_workflows_workflow_records"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/workflows/{workflow}/retry": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Resume a workflow that failed or was cancelled
         * @description The key needs the scope `operate`.
         */
        post: operations["post_workflows_workflow_retry"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/workflows/{workflow}/signals/{signal}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Send a signal to a workflow
         * @description The key needs the scope `write`.
         */
        post: operations["post_workflows_workflow_signals_signal"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/workflows/{workflow}/start": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Start a workflow, for a worker to drive
         * @description The key needs the scope `write`.
         */
        post: operations["post_workflows_workflow_start"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /**
         * AppendAnswer
         * @description What became of an append: `stored`, or a `duplicate` of one with the same key.
         */
        AppendAnswer: {
            cursor: string;
            /** @enum {unknown} */
            status: "duplicate" | "stored";
            version: number;
        };
        /**
         * AppendBody
         * @description Messages for the end of a conversation, and a merge patch for its variables.
         */
        AppendBody: {
            messages: Record<string, unknown>[];
            /** @default null */
            vars?: Record<string, unknown> | null;
        };
        /**
         * AuditInfo
         * @description A summary of what an audit found.
         */
        AuditInfo: {
            /** @default {} */
            answers?: {
                [key: string]: number;
            };
            /** @default 0 */
            bytes?: number;
            id: string;
            /** @default false */
            interrupted?: boolean;
            /** @default null */
            kept_at?: string | null;
            /** @default  */
            profile?: string;
            /** @default 0 */
            seconds?: number;
            /** @default 0 */
            seed?: number;
            /** @default  */
            sentence?: string;
            /** @default  */
            started?: string;
            /** @default  */
            target?: string;
            /** @default  */
            title?: string;
            /** @default unknown */
            verdict?: string;
        };
        /**
         * AuditShown
         * @description An audit in full, and what changed since the last one before it of the same title.
         */
        AuditShown: {
            before: components["schemas"]["AuditInfo"] | null;
            changes: components["schemas"]["Comparison"] | null;
            info: components["schemas"]["AuditInfo"];
            report: Record<string, unknown>;
        };
        /**
         * Awaited
         * @description Something a workflow waits for: a signal, the end of a sleep, a child or a driver.
         *
         *         `name` is that of the signal or sleep, or the child's id; a driver has none.
         */
        Awaited: {
            name: string;
            since: string;
            /** @default null */
            until?: string | null;
            /** @enum {unknown} */
            what: "child" | "driver" | "signal" | "sleep";
        };
        /**
         * Begun
         * @description The new workflow.
         */
        Begun: {
            id: string;
        };
        /**
         * Branch
         * @description A thread that was forked from another one, at that `version` of it.
         */
        Branch: {
            created_at: string;
            id: string;
            messages: number;
            updated_at: string;
            user: string | null;
            version: number;
        };
        /**
         * BreakBody
         * @description The token of the lease that was seen, and whether it is that of a leader.
         */
        BreakBody: {
            /** @default false */
            leader?: boolean;
            token: number;
        };
        /**
         * ChangeMade
         * @description Whether this request has changed anything; false: it was so before.
         */
        ChangeMade: {
            changed: boolean;
        };
        /**
         * ComparedKnowledge
         * @description What differs between the turn and `version`, the end of the turn before or of the thread.
         */
        ComparedKnowledge: {
            /** @enum {unknown} */
            against: "before" | "now";
            changes: components["schemas"]["KnowledgeChange"][];
            version: number;
        };
        /**
         * Comparison
         * @description All changes, worst first; `notes` says what makes the two less comparable.
         */
        Comparison: {
            after: string;
            before: string;
            changes: components["schemas"]["Difference"][];
            /** @default [] */
            notes?: string[];
        };
        /**
         * Concern
         * @description An entity that an event concerned: a conversation, a workflow, a task …
         */
        Concern: {
            id: string;
            kind: string;
        };
        /**
         * ContextBreak
         * @description A sign that the agent had lost its context: see `stateward.repeats`.
         *
         *         `earlier` is the version of the message that had said it, if it is on the page.
         */
        ContextBreak: {
            earlier: number | null;
            evidence: string;
            kind: string;
            score: number;
        };
        /**
         * ContextShown
         * @description All that an agent needs to continue: conversation, user and unfinished work.
         */
        ContextShown: {
            exists: boolean;
            thread: components["schemas"]["ThreadWindow"];
            user: components["schemas"]["NamedDocument"][];
            workflows: components["schemas"]["WorkflowInfo"][];
        };
        /**
         * ConversationBody
         * @description What a conversation begins with.
         */
        ConversationBody: {
            /** @default null */
            items?: Record<string, unknown>[] | null;
            /** @default null */
            metadata?: {
                [key: string]: string;
            } | null;
        };
        /**
         * ConversationDeleted
         * @description A conversation that is gone.
         */
        ConversationDeleted: {
            /** @default true */
            deleted?: boolean;
            id: string;
            /**
             * @default conversation.deleted
             * @enum {unknown}
             */
            object?: "conversation.deleted";
        };
        /**
         * ConversationShown
         * @description A conversation, in OpenAI's format.
         */
        ConversationShown: {
            created_at: number;
            id: string;
            metadata: {
                [key: string]: string;
            };
            /**
             * @default conversation
             * @enum {unknown}
             */
            object?: "conversation";
        };
        /**
         * DescribeBody
         * @description Another title ("": none), and labels that are new or changed (null: removed).
         */
        DescribeBody: {
            /** @default null */
            labels?: {
                [key: string]: string | null;
            } | null;
            /** @default null */
            title?: string | null;
        };
        /**
         * Difference
         * @description One thing that is not as it was.
         */
        Difference: {
            after: string;
            before: string;
            /** @enum {unknown} */
            direction: "better" | "different" | "worse";
            /** @enum {unknown} */
            kind: "figure" | "setting" | "verdict";
            what: string;
            where: string;
        };
        /**
         * DocumentDiff
         * @description A JSON patch (RFC 6902), each operation of which also says what `was` there.
         */
        DocumentDiff: {
            patch: Record<string, unknown>[];
        };
        /**
         * EffectInfo
         * @description An effect: one call of a tool that acts, and what is known about it.
         *
         *         `status` is intended (it is being carried out, or will be), done, failed, or unknown: it was
         *         started, and its outcome was not recorded. `kind` and `of` name the thread, workflow or task
         *         that it belongs to, `call` the call. `args` and `kwargs` are None if they were not JSON.
         */
        EffectInfo: {
            args: unknown[] | null;
            call: string;
            created_at: string;
            /** @default  */
            cursor?: string;
            decided: string | null;
            error: string | null;
            id: string;
            key: string;
            keyed: boolean;
            kind: string;
            kwargs: Record<string, unknown> | null;
            name: string;
            of: string;
            result: unknown;
            status: string;
            tries: number;
            updated_at: string;
            user: string | null;
        };
        /**
         * EntityChange
         * @description An entity that has changed: a conversation, a user's documents, a workflow … See `changes`.
         *
         *         `commits` counts everything ever written to it, `version` the entries of its log.
         */
        EntityChange: {
            commits: number;
            cursor: string;
            id: string;
            kind: string;
            updated_at: string;
            user: string | null;
            version: number;
        };
        /**
         * EntityFound
         * @description Something whose id is that text, or begins with it.
         */
        EntityFound: {
            id: string;
            kind: string;
            user: string | null;
        };
        /**
         * ErasureReceipt
         * @description What an erasure removed, by kind. Keep it: it contains no content.
         *
         *         Until `remembered_until` the store keeps the bare ids of what was erased, so that a delayed
         *         write cannot bring any of it back.
         */
        ErasureReceipt: {
            at: string;
            remembered_until: string;
            removed: {
                [key: string]: number;
            };
            /** @default null */
            replica?: string | null;
            user: string;
        };
        /**
         * EventsBody
         * @description Events for the end of a journal.
         */
        EventsBody: {
            events: Record<string, unknown>[];
        };
        /**
         * FindAnswer
         * @description What there is: ids that begin so, what that user has, and what was done by hand.
         */
        FindAnswer: {
            entities: components["schemas"]["EntityFound"][];
            kinds: {
                [key: string]: number;
            };
            operations: components["schemas"]["LoggedOperation"][];
            threads: components["schemas"]["ThreadInfo"][];
            user: string | null;
        };
        /**
         * ForkAnswer
         * @description The new conversation.
         */
        ForkAnswer: {
            id: string;
            user: string | null;
        };
        /**
         * ForkBody
         * @description The id of the new conversation, and at which version or cursor it leaves the old one.
         */
        ForkBody: {
            /** @default null */
            at?: string | number | null;
            to: string;
        };
        /**
         * Gone
         * @description Something that was given then and can no longer be shown as it was.
         *
         *         `name` is a message's number in the thread ("": it is not known which one), a document's name or
         *         a workflow's id. `why`: `edited`, `removed` or `trimmed` for messages; `changed` or `deleted`
         *         for what has another version now, or none, and whose earlier version is not kept; `shortened`
         *         for texts that were cut to fit and are shown in full; `unknown` if the thread no longer has the
         *         information.
         */
        Gone: {
            name: string;
            /** @enum {unknown} */
            what: "document" | "message" | "summary" | "workflow";
            /** @enum {unknown} */
            why: "changed" | "deleted" | "edited" | "removed" | "shortened" | "trimmed" | "unknown";
        };
        /**
         * Health
         * @description Whether the store answers. If not, `error` says why, in words.
         */
        Health: {
            /** @default [] */
            alarms?: string[];
            /** @default closed */
            breaker?: string;
            /** @default null */
            bytes?: number | null;
            /** @default null */
            durability?: string | null;
            /** @default null */
            engine?: string | null;
            /** @default null */
            error?: string | null;
            /** @default null */
            latency?: number | null;
            ok: boolean;
            /** @default {} */
            parts?: {
                [key: string]: components["schemas"]["Health"];
            };
            /** @default null */
            schema?: number | null;
            /** @default 0 */
            spill_bytes?: number;
            /** @default 0 */
            spill_depth?: number;
            /** @default null */
            spill_problem?: string | null;
            /** @default null */
            version?: string | null;
        };
        /**
         * ItemList
         * @description Some items. `last_id` goes into `after` for those that follow, if there are more.
         */
        ItemList: {
            data: Record<string, unknown>[];
            first_id: string | null;
            has_more: boolean;
            last_id: string | null;
            /**
             * @default list
             * @enum {unknown}
             */
            object?: "list";
        };
        /**
         * ItemsBody
         * @description Items for the end of a conversation: all of them are stored, or none.
         */
        ItemsBody: {
            items: Record<string, unknown>[];
        };
        /**
         * KeyBody
         * @description What a new key is for; `namespaces` null: every one. `days`: how long it is in force.
         */
        KeyBody: {
            /** @default null */
            burst?: number | null;
            /** @default null */
            days?: number | null;
            namespaces: string[] | null;
            /** @default  */
            note?: string;
            /** @default null */
            rate?: number | null;
            /** @enum {unknown} */
            scope: "admin" | "operate" | "read" | "write";
            /** @default null */
            user?: string | null;
        };
        /**
         * KeyMade
         * @description A new key in full, returned only once.
         */
        KeyMade: {
            about: components["schemas"]["KeyShown"];
            key: string;
        };
        /**
         * KeyShown
         * @description A key, without its secret, which is not stored.
         */
        KeyShown: {
            burst: number | null;
            created_at: string;
            expires_at: string | null;
            id: string;
            namespaces: string[] | null;
            note: string;
            rate: number | null;
            revoked_at: string | null;
            scope: string;
            user: string | null;
        };
        /**
         * KindNames
         * @description Kinds of workflows.
         */
        KindNames: {
            items: string[];
        };
        /**
         * KnowledgeChange
         * @description Something that is not what it was. `was` and `now` are a version, or a status; null: none.
         */
        KnowledgeChange: {
            name: string;
            now: number | string | null;
            was: number | string | null;
            /** @enum {unknown} */
            what: "document" | "messages" | "summary" | "workflow";
        };
        /**
         * KnowledgeShown
         * @description What an agent was given when it wrote a turn, as `Store.knew` returns it.
         */
        KnowledgeShown: {
            at: string;
            /** @default null */
            difference?: components["schemas"]["ComparedKnowledge"] | null;
            documents: components["schemas"]["NamedDocument"][];
            gone: components["schemas"]["Gone"][];
            messages: Record<string, unknown>[];
            numbers: number[];
            receipt: components["schemas"]["ReceiptShown"];
            summary: string | null;
            thread: string;
            version: number;
            workflows: components["schemas"]["WorkflowInfo"][];
        };
        /**
         * LargestThreads
         * @description Conversations, those with the most messages first.
         */
        LargestThreads: {
            items: components["schemas"]["ThreadInfo"][];
        };
        /**
         * Late
         * @description A turn that reached the store after newer ones: the messages `first` to `last`.
         *
         *         `written_at` is when it was written, by the store's clock.
         */
        Late: {
            first: number;
            last: number;
            written_at: string;
        };
        /**
         * LockShown
         * @description Who holds a lock, or leads a name.
         */
        LockShown: {
            granted_at: string | null;
            holder: string | null;
            name: string;
            token: number | null;
            until: string | null;
        };
        /**
         * LogCheck
         * @description Whether the log is intact, as `OperationsLog.verify` returns it.
         */
        LogCheck: {
            base: number;
            entries: number;
            head: string;
            ok: boolean;
            problems: string[];
            unended: number[];
        };
        /**
         * LoggedOperation
         * @description One entry of the operations log: a manual change that was intended, or how it ended.
         *
         *         `hash` covers everything else, including `previous`; the next entry has it as its `previous`.
         */
        LoggedOperation: {
            at: string;
            /** @default null */
            correlation?: string | null;
            /** @default {} */
            detail?: Record<string, unknown>;
            /** @default  */
            hash?: string;
            number: number;
            /** @default null */
            of?: number | null;
            /** @enum {unknown} */
            outcome: "done" | "failed" | "intended";
            /** @default  */
            previous?: string;
            target: string;
            what: string;
            who: string;
        };
        /**
         * Lost
         * @description Something that the target cannot hold: of which message, which part (0: all of it), why.
         */
        Lost: {
            number: number;
            part: number;
            what: string;
            why: string;
        };
        /**
         * MessageEvent
         * @description One message as it entered a conversation; its cursor is the id of the event.
         */
        MessageEvent: {
            at: string;
            cursor: string;
            key: string | null;
            message: Record<string, unknown>;
            version: number;
        };
        /**
         * MetadataBody
         * @description The metadata that replaces all existing metadata; null: none.
         */
        MetadataBody: {
            metadata: {
                [key: string]: string;
            } | null;
        };
        /**
         * NamedDocument
         * @description A document in a listing.
         */
        NamedDocument: {
            etag: string;
            name: string;
            updated_at: string | null;
            value: Record<string, unknown>;
            version: number;
        };
        /**
         * NamespaceNames
         * @description Namespaces, by the bytes of their names.
         */
        NamespaceNames: {
            items: string[];
        };
        /**
         * OpenAIError
         * @description Why a request failed, as OpenAI says it.
         */
        OpenAIError: {
            error: components["schemas"]["OpenAIErrorDetail"];
        };
        /**
         * OpenAIErrorDetail
         * @description What is wrong. `code` is the class of Stateward's error, where OpenAI has no code.
         */
        OpenAIErrorDetail: {
            /** @default null */
            code?: string | null;
            message: string;
            /** @default null */
            param?: string | null;
            type: string;
        };
        /**
         * OpenQuestion
         * @description A question that a workflow asks people and waits for, such as an approval.
         *
         *         `ask` and `for_` are as passed to `run.wait`.
         */
        OpenQuestion: {
            ask: unknown;
            asked_at: string;
            for_: string | null;
            id: string;
            kind: string;
            signal: string;
            /** @default null */
            until?: string | null;
            user: string | null;
            workflow: string;
        };
        /**
         * Origin
         * @description Where a thread was forked from: which thread, and which version of it.
         */
        Origin: {
            thread: string;
            version: number;
        };
        /**
         * OwnKey
         * @description What the key of this request permits; `namespaces` null: all; `user` null: all users.
         */
        OwnKey: {
            expires_at: string | null;
            name: string;
            namespaces: string[] | null;
            scope: string;
            user: string | null;
        };
        /**
         * Page[AuditInfo]
         * @description Some of a list. `next` is what to pass as `after` for more; null: these were the last.
         */
        Page_AuditInfo_: {
            items: components["schemas"]["AuditInfo"][];
            next: string | null;
        };
        /**
         * Page[Branch]
         * @description Some of a list. `next` is what to pass as `after` for more; null: these were the last.
         */
        Page_Branch_: {
            items: components["schemas"]["Branch"][];
            next: string | null;
        };
        /**
         * Page[EffectInfo]
         * @description Some of a list. `next` is what to pass as `after` for more; null: these were the last.
         */
        Page_EffectInfo_: {
            items: components["schemas"]["EffectInfo"][];
            next: string | null;
        };
        /**
         * Page[KeyShown]
         * @description Some of a list. `next` is what to pass as `after` for more; null: these were the last.
         */
        Page_KeyShown_: {
            items: components["schemas"]["KeyShown"][];
            next: string | null;
        };
        /**
         * Page[LockShown]
         * @description Some of a list. `next` is what to pass as `after` for more; null: these were the last.
         */
        Page_LockShown_: {
            items: components["schemas"]["LockShown"][];
            next: string | null;
        };
        /**
         * Page[LoggedOperation]
         * @description Some of a list. `next` is what to pass as `after` for more; null: these were the last.
         */
        Page_LoggedOperation_: {
            items: components["schemas"]["LoggedOperation"][];
            next: string | null;
        };
        /**
         * Page[NamedDocument]
         * @description Some of a list. `next` is what to pass as `after` for more; null: these were the last.
         */
        Page_NamedDocument_: {
            items: components["schemas"]["NamedDocument"][];
            next: string | null;
        };
        /**
         * Page[OpenQuestion]
         * @description Some of a list. `next` is what to pass as `after` for more; null: these were the last.
         */
        Page_OpenQuestion_: {
            items: components["schemas"]["OpenQuestion"][];
            next: string | null;
        };
        /**
         * Page[PastVersion]
         * @description Some of a list. `next` is what to pass as `after` for more; null: these were the last.
         */
        Page_PastVersion_: {
            items: components["schemas"]["PastVersion"][];
            next: string | null;
        };
        /**
         * Page[ScheduleInfo]
         * @description Some of a list. `next` is what to pass as `after` for more; null: these were the last.
         */
        Page_ScheduleInfo_: {
            items: components["schemas"]["ScheduleInfo"][];
            next: string | null;
        };
        /**
         * Page[TaskInfo]
         * @description Some of a list. `next` is what to pass as `after` for more; null: these were the last.
         */
        Page_TaskInfo_: {
            items: components["schemas"]["TaskInfo"][];
            next: string | null;
        };
        /**
         * Page[ThreadInfo]
         * @description Some of a list. `next` is what to pass as `after` for more; null: these were the last.
         */
        Page_ThreadInfo_: {
            items: components["schemas"]["ThreadInfo"][];
            next: string | null;
        };
        /**
         * Page[TranscriptMessage]
         * @description Some of a list. `next` is what to pass as `after` for more; null: these were the last.
         */
        Page_TranscriptMessage_: {
            items: components["schemas"]["TranscriptMessage"][];
            next: string | null;
        };
        /**
         * Page[UserShown]
         * @description Some of a list. `next` is what to pass as `after` for more; null: these were the last.
         */
        Page_UserShown_: {
            items: components["schemas"]["UserShown"][];
            next: string | null;
        };
        /**
         * Page[WorkflowInfo]
         * @description Some of a list. `next` is what to pass as `after` for more; null: these were the last.
         */
        Page_WorkflowInfo_: {
            items: components["schemas"]["WorkflowInfo"][];
            next: string | null;
        };
        /**
         * Page[WorkflowRecord]
         * @description Some of a list. `next` is what to pass as `after` for more; null: these were the last.
         */
        Page_WorkflowRecord_: {
            items: components["schemas"]["WorkflowRecord"][];
            next: string | null;
        };
        /**
         * PastVersion
         * @description What a document was from a moment on; a `value` of null: it was removed.
         */
        PastVersion: {
            updated_at: string;
            value: Record<string, unknown> | null;
            version: number | null;
        };
        /**
         * Problem
         * @description Why a request failed: a problem document of RFC 9457.
         */
        Problem: {
            /** @default null */
            applied?: ("no" | "unknown") | null;
            /** @default  */
            detail?: string;
            /** @default  */
            error?: string;
            /** @default 0 */
            status?: number;
            /** @default  */
            title?: string;
            /** @default about:blank */
            type?: string;
        };
        /**
         * ReasonBody
         * @description The reason, shown to later readers.
         */
        ReasonBody: {
            /** @default  */
            reason?: string;
        };
        /**
         * ReceiptShown
         * @description What a turn was given, in numbers: see `TurnReceipt`.
         */
        ReceiptShown: {
            documents: {
                [key: string]: number;
            } | null;
            given: number;
            has_summary: boolean;
            last: number | null;
            left_out: {
                [key: string]: number;
            };
            max_tokens: number | null;
            omitted: number;
            pinned: number;
            shortened: number;
            summarised: number;
            tokens: number | null;
            turns: number | null;
            unread: boolean;
            version: number;
            workflows: string[] | null;
        };
        /**
         * ReplicaCounts
         * @description What a process has counted since it opened the store, and its current state.
         *
         *         Latencies are in seconds, between its last two heartbeats; None: there were no such calls.
         */
        ReplicaCounts: {
            /** @default [] */
            alarms?: string[];
            /** @default 0 */
            cache_hits?: number;
            /** @default 0 */
            cache_misses?: number;
            /** @default 0 */
            conflicts?: number;
            /** @default 0 */
            context_breaks?: number;
            /** @default 0 */
            dropped?: number;
            /** @default 0 */
            failures?: number;
            /** @default 0 */
            kept?: number;
            /** @default 0 */
            lost?: number;
            /** @default null */
            read_p50?: number | null;
            /** @default null */
            read_p99?: number | null;
            /** @default 0 */
            reads?: number;
            /** @default 0 */
            spilled?: number;
            /** @default 0 */
            suppressed?: number;
            /** @default null */
            write_p50?: number | null;
            /** @default null */
            write_p99?: number | null;
            /** @default 0 */
            writes?: number;
        };
        /**
         * ReplicaInfo
         * @description A process that has or had a store open, according to its last heartbeat.
         */
        ReplicaInfo: {
            beat_at: string;
            counts: components["schemas"]["ReplicaCounts"];
            engine: string;
            every: number;
            host: string;
            id: string;
            namespace: string;
            pid: number;
            replica: string | null;
            started_at: string;
            /** @enum {unknown} */
            status: "alive" | "closed" | "gone";
            version: string;
        };
        /**
         * ReplicasShown
         * @description Processes that have the namespace open, or had it in the last hour; those that live first.
         */
        ReplicasShown: {
            items: components["schemas"]["ReplicaInfo"][];
        };
        /**
         * ResolveBody
         * @description What became of an effect.
         */
        ResolveBody: {
            /** @enum {unknown} */
            decision: "done" | "failed" | "not done";
            /** @default  */
            error?: string;
            /** @default null */
            result?: unknown;
        };
        /**
         * ScheduleBody
         * @description When, and which task or workflow; see `Schedule.declare`.
         */
        ScheduleBody: {
            /** @default [] */
            args?: unknown[];
            cron: string;
            /** @default null */
            input?: unknown;
            /** @default {} */
            kwargs?: Record<string, unknown>;
            /**
             * @default once
             * @enum {unknown}
             */
            missed?: "all" | "once" | "skip";
            /** @default null */
            task?: string | null;
            /** @default UTC */
            tz?: string;
            /** @default null */
            workflow?: string | null;
        };
        /**
         * ScheduleInfo
         * @description The state of a schedule.
         */
        ScheduleInfo: {
            cron: string;
            id: string;
            last_at: string | null;
            last_error: string | null;
            last_id: string | null;
            last_status: string | null;
            missed: number;
            missed_from: string | null;
            missed_to: string | null;
            next_at: string | null;
            skipped: number;
            status: string;
            task: string | null;
            tz: string;
            user: string | null;
            workflow: string | null;
        };
        /**
         * SignalPoint
         * @description What all processes measured in the `seconds` from `at` on.
         *
         *         `concerned` has, by event ("suppressed", "conflicts" …), the most recent entities concerned.
         */
        SignalPoint: {
            at: string;
            /** @default 0 */
            breakers_open?: number;
            /** @default 0 */
            cache_hits?: number;
            /** @default 0 */
            cache_misses?: number;
            /** @default {} */
            concerned?: {
                [key: string]: components["schemas"]["Concern"][];
            };
            /** @default 0 */
            conflicts?: number;
            /** @default 0 */
            context_breaks?: number;
            /** @default 0 */
            dropped?: number;
            /** @default 0 */
            failures?: number;
            /** @default 0 */
            fenced?: number;
            /** @default 0 */
            kept?: number;
            /** @default 0 */
            late?: number;
            /** @default null */
            lookup_p50?: number | null;
            /** @default null */
            lookup_p95?: number | null;
            /** @default null */
            lookup_p99?: number | null;
            /** @default 0 */
            lookups?: number;
            /** @default 0 */
            lost?: number;
            /** @default 0 */
            replicas?: number;
            seconds: number;
            /** @default null */
            storage_bytes?: number | null;
            /** @default 0 */
            suppressed?: number;
            /** @default 0 */
            went_back?: number;
            /** @default 0 */
            writes?: number;
        };
        /**
         * Signals
         * @description What was measured over time. Points without measurements are left out.
         */
        Signals: {
            points: components["schemas"]["SignalPoint"][];
            since: string;
            step: number;
            total: components["schemas"]["SignalPoint"];
            until: string;
        };
        /**
         * StartBody
         * @description The kind of a workflow, and what it begins with.
         */
        StartBody: {
            /** @default null */
            input?: unknown;
            kind: string;
        };
        /**
         * StepForkBody
         * @description The id of the new workflow, and the recorded step to fork before.
         */
        StepForkBody: {
            at_step: string;
            to: string;
        };
        /**
         * StorageShown
         * @description How much there is in the namespace by kind, and how large the whole store is.
         *
         *         What has expired counts until it is swept. The whole store is told to those alone whose key is
         *         for every namespace; `capacity` is how many bytes it can grow to, where the store knows.
         */
        StorageShown: {
            bytes: number | null;
            capacity: number | null;
            engine: string | null;
            kinds: {
                [key: string]: number;
            };
            rows: number | null;
        };
        /**
         * Summary
         * @description The summary of a conversation's older turns: of all messages up to version `upto`.
         */
        Summary: {
            made_at: string;
            messages: number;
            text: string;
            upto: number;
        };
        /**
         * TaskInfo
         * @description The state of a task.
         */
        TaskInfo: {
            attempt: number;
            /** @default  */
            cursor?: string;
            due_at: string | null;
            error: string | null;
            failures: number;
            holder: string | null;
            id: string;
            name: string;
            since: string;
            status: string;
            updated_at: string;
            user: string | null;
        };
        /**
         * ThreadAbout
         * @description What there is to say of a conversation beside its messages.
         */
        ThreadAbout: {
            info: components["schemas"]["ThreadInfo"];
            late: components["schemas"]["Late"][];
            leader: string | null;
            origin: components["schemas"]["Origin"] | null;
            summary: components["schemas"]["Summary"] | null;
            vars: Record<string, unknown>;
        };
        /**
         * ThreadInfo
         * @description A thread in a listing.
         */
        ThreadInfo: {
            /** @default false */
            archived?: boolean;
            created_at: string;
            /** @default  */
            cursor?: string;
            expires_at: string | null;
            id: string;
            /** @default {} */
            labels?: {
                [key: string]: string;
            };
            messages: number;
            /** @default null */
            title?: string | null;
            updated_at: string;
            user: string | null;
            version: number;
        };
        /**
         * ThreadWindow
         * @description What a conversation gives a prompt, as `Thread.load` does.
         *
         *         `system` and `lost` are of messages in another shape: the system prompt, where the shape has no
         *         such messages, and what it cannot hold.
         */
        ThreadWindow: {
            created_at: string | null;
            cursor: string;
            id: string;
            /** @default [] */
            lost?: components["schemas"]["Lost"][];
            messages: Record<string, unknown>[];
            omitted: number;
            pending: string[];
            pinned: number;
            shortened: number;
            /** @default null */
            system?: string | null;
            tokens: number | null;
            updated_at: string | null;
            version: number;
        };
        /**
         * TranscriptMessage
         * @description A message as it entered the conversation. The last one of a turn may have its receipt.
         */
        TranscriptMessage: {
            at: string;
            /** @default [] */
            breaks?: components["schemas"]["ContextBreak"][];
            cursor: string;
            key: string | null;
            message: Record<string, unknown>;
            receipt: components["schemas"]["ReceiptShown"] | null;
            version: number;
        };
        /**
         * UndoBody
         * @description To which version, or time; neither: before its last change.
         */
        UndoBody: {
            /** @default null */
            at?: string | null;
            /** @default null */
            to?: number | null;
        };
        /**
         * UserKinds
         * @description How much a user has, by kind.
         */
        UserKinds: {
            id: string;
            kinds: {
                [key: string]: number;
            };
        };
        /**
         * UserShown
         * @description A user who owns anything here, and how much.
         */
        UserShown: {
            entities: number;
            id: string;
        };
        /**
         * ValueBody
         * @description The value of a signal.
         */
        ValueBody: {
            /** @default null */
            value?: unknown;
        };
        /**
         * WorkflowInfo
         * @description The state of a workflow.
         *
         *         `status` is active, completed, failed or cancelled; `step` is the state of its declared machine.
         */
        WorkflowInfo: {
            /** @default 0 */
            attempt?: number;
            /** @default  */
            cursor?: string;
            /** @default null */
            driver?: string | null;
            /** @default null */
            error?: string | null;
            /** @default null */
            failed_step?: string | null;
            id: string;
            kind: string;
            /** @default null */
            last_error?: string | null;
            state: Record<string, unknown>;
            status: string;
            step: string | null;
            updated_at: string;
            user: string | null;
            /** @default [] */
            waits?: components["schemas"]["Awaited"][];
        };
        /**
         * WorkflowRecord
         * @description What a workflow recorded: a step with its result, a signal, a wait …
         */
        WorkflowRecord: {
            at: string;
            name: unknown;
            number: number;
            value: unknown;
            what: string;
        };
    };
    responses: never;
    parameters: {
        /** @description The namespace, if the key has access to several; percent-encoded. */
        Namespace: string;
    };
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    get_audits: {
        parameters: {
            query?: {
                limit?: number;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List stored audits, newest first */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_AuditInfo_"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_audits_audit: {
        parameters: {
            query?: never;
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                audit: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get an audit, and what changed since the previous one */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AuditShown"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_audits_audit_report: {
        parameters: {
            query?: never;
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                audit: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get the full report of an audit as an HTML page */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/html; charset=utf-8": string;
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_changes: {
        parameters: {
            query?: {
                after?: string;
                follow?: boolean;
                kinds?: string;
            };
            header?: {
                /** @description The id of the last event received. */
                "Last-Event-ID"?: string;
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Stream what has changed, and changes as they happen */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": {
                        data: string;
                        event?: string;
                        id?: string;
                    };
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_context: {
        parameters: {
            query: {
                last?: number;
                max_tokens?: number;
                oversized?: "raise" | "shorten";
                thread: string;
                turns?: number;
                user: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get a window, the user's documents and unfinished work in one read */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ContextShown"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    post_conversations: {
        parameters: {
            query?: {
                user?: string;
            };
            header?: {
                /** @description Identifies the request: repeats are carried out once. */
                "Idempotency-Key"?: string;
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ConversationBody"];
            };
        };
        responses: {
            /** @description Create a conversation, as OpenAI's clients do */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ConversationShown"];
                };
            };
            /** @description An error in OpenAI's format. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OpenAIError"];
                };
            };
        };
    };
    get_conversations_conversation: {
        parameters: {
            query?: {
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                conversation: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get a conversation and its metadata */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ConversationShown"];
                };
            };
            /** @description An error in OpenAI's format. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OpenAIError"];
                };
            };
        };
    };
    post_conversations_conversation: {
        parameters: {
            query?: {
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                conversation: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MetadataBody"];
            };
        };
        responses: {
            /** @description Replace the metadata of a conversation */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ConversationShown"];
                };
            };
            /** @description An error in OpenAI's format. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OpenAIError"];
                };
            };
        };
    };
    delete_conversations_conversation: {
        parameters: {
            query?: {
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
                /** @description How often this request was sent before: OpenAI's clients count. */
                "X-Stainless-Retry-Count"?: string;
            };
            path: {
                conversation: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Remove a conversation with its items */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ConversationDeleted"];
                };
            };
            /** @description An error in OpenAI's format. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OpenAIError"];
                };
            };
        };
    };
    get_conversations_conversation_items: {
        parameters: {
            query?: {
                after?: string;
                include?: ("code_interpreter_call.outputs" | "computer_call_output.output.image_url" | "file_search_call.results" | "message.input_image.image_url" | "message.output_text.logprobs" | "reasoning.encrypted_content" | "web_search_call.action.sources" | "web_search_call.results")[];
                limit?: number;
                order?: "asc" | "desc";
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                conversation: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List a conversation's items */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ItemList"];
                };
            };
            /** @description An error in OpenAI's format. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OpenAIError"];
                };
            };
        };
    };
    post_conversations_conversation_items: {
        parameters: {
            query?: {
                include?: ("code_interpreter_call.outputs" | "computer_call_output.output.image_url" | "file_search_call.results" | "message.input_image.image_url" | "message.output_text.logprobs" | "reasoning.encrypted_content" | "web_search_call.action.sources" | "web_search_call.results")[];
                user?: string;
            };
            header?: {
                /** @description Identifies the request: repeats are carried out once. */
                "Idempotency-Key"?: string;
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
                /** @description How often this request was sent before: OpenAI's clients count. */
                "X-Stainless-Retry-Count"?: string;
            };
            path: {
                conversation: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ItemsBody"];
            };
        };
        responses: {
            /** @description Add items to a conversation, all or none */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ItemList"];
                };
            };
            /** @description An error in OpenAI's format. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OpenAIError"];
                };
            };
        };
    };
    get_conversations_conversation_items_item: {
        parameters: {
            query?: {
                include?: ("code_interpreter_call.outputs" | "computer_call_output.output.image_url" | "file_search_call.results" | "message.input_image.image_url" | "message.output_text.logprobs" | "reasoning.encrypted_content" | "web_search_call.action.sources" | "web_search_call.results")[];
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                conversation: string;
                item: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get an item of a conversation */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": Record<string, unknown>;
                };
            };
            /** @description An error in OpenAI's format. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OpenAIError"];
                };
            };
        };
    };
    delete_conversations_conversation_items_item: {
        parameters: {
            query?: {
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
                /** @description How often this request was sent before: OpenAI's clients count. */
                "X-Stainless-Retry-Count"?: string;
            };
            path: {
                conversation: string;
                item: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Remove an item from a conversation */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ConversationShown"];
                };
            };
            /** @description An error in OpenAI's format. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OpenAIError"];
                };
            };
        };
    };
    get_effects: {
        parameters: {
            query?: {
                after?: string;
                limit?: number;
                name?: string;
                of_thread?: string;
                of_workflow?: string;
                status?: "done" | "failed" | "intended" | "unknown";
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List effects: what tools did, or may have done */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_EffectInfo_"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_effects_effect: {
        parameters: {
            query?: never;
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                effect: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get an effect */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EffectInfo"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    post_effects_effect_resolve: {
        parameters: {
            query?: never;
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                effect: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ResolveBody"];
            };
        };
        responses: {
            /** @description Record the outcome of an effect that is unknown or failed */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EffectInfo"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_find: {
        parameters: {
            query: {
                text: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Find by id, by user or by correlation id */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FindAnswer"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_health: {
        parameters: {
            query?: never;
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Check the store, with breaker, spill and alarms; 200 even if it does not answer */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Health"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    delete_journals_journal: {
        parameters: {
            query?: {
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                journal: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_journals_journal_changes: {
        parameters: {
            query?: {
                after?: string;
                follow?: boolean;
                user?: string;
            };
            header?: {
                /** @description The id of the last event received. */
                "Last-Event-ID"?: string;
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                journal: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Stream every event after a cursor, and new ones as they arrive */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": {
                        data: string;
                        event?: string;
                        id?: string;
                    };
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    post_journals_journal_events: {
        parameters: {
            query?: {
                user?: string;
            };
            header?: {
                /** @description Identifies the request: repeats are carried out once. */
                "Idempotency-Key"?: string;
                /** @description The ETag of the version to change; refused if it is not current. */
                "If-Match"?: string;
                /** @description `*`: only if it does not exist. When reading, an ETag: 304 if it is current. */
                "If-None-Match"?: string;
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                journal: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["EventsBody"];
            };
        };
        responses: {
            /** @description Publish events, all or none */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AppendAnswer"];
                };
            };
            /** @description Publish events, all or none */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AppendAnswer"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_key: {
        parameters: {
            query?: never;
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get the permissions of the key that makes the request */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["OwnKey"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_keys: {
        parameters: {
            query?: {
                after?: string;
                limit?: number;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List keys by id */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_KeyShown_"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    post_keys: {
        parameters: {
            query?: never;
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["KeyBody"];
            };
        };
        responses: {
            /** @description Create a key; it is shown only in this response */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["KeyMade"];
                };
            };
            /** @description Create a key; it is shown only in this response */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["KeyMade"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    post_keys_key_revoke: {
        parameters: {
            query?: never;
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                key: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Revoke a key; it is refused within five seconds */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["KeyShown"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    post_kinds_kind_pause: {
        parameters: {
            query?: never;
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                kind: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    post_kinds_kind_resume: {
        parameters: {
            query?: never;
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                kind: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_kinds_paused: {
        parameters: {
            query?: never;
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List the kinds of workflows that are paused */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["KindNames"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_locks: {
        parameters: {
            query?: {
                after?: string;
                leaders?: boolean;
                limit?: number;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List locks and leaders with their holders */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_LockShown_"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    post_locks_lock_break: {
        parameters: {
            query?: never;
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                lock: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["BreakBody"];
            };
        };
        responses: {
            /** @description Done. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_namespaces: {
        parameters: {
            query?: never;
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List the namespaces that the key has access to */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NamespaceNames"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_openapi_json: {
        parameters: {
            query?: never;
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get this API as OpenAPI 3.1 */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": Record<string, unknown>;
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_operations_log: {
        parameters: {
            query?: {
                after?: string;
                limit?: number;
                target?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List manual changes, newest first */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_LoggedOperation_"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_operations_log_export: {
        parameters: {
            query?: never;
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Export the operations log with its hashes, one JSON object per line */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/x-ndjson": string;
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_operations_log_verify: {
        parameters: {
            query?: {
                head?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Check the operations log for tampering */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LogCheck"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_replicas: {
        parameters: {
            query?: never;
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List the processes that have the store open, by their heartbeats */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReplicasShown"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_schedules: {
        parameters: {
            query?: {
                after?: string;
                limit?: number;
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List schedules by id */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_ScheduleInfo_"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_schedules_schedule: {
        parameters: {
            query?: {
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                schedule: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get a schedule */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ScheduleInfo"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    put_schedules_schedule: {
        parameters: {
            query?: {
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                schedule: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ScheduleBody"];
            };
        };
        responses: {
            /** @description Create or replace a schedule */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ScheduleInfo"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    delete_schedules_schedule: {
        parameters: {
            query?: {
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                schedule: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    post_schedules_schedule_pause: {
        parameters: {
            query?: {
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                schedule: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Pause a schedule */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ScheduleInfo"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    post_schedules_schedule_resume: {
        parameters: {
            query?: {
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                schedule: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Resume a schedule */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ScheduleInfo"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_shared_shared_documents: {
        parameters: {
            query?: {
                after?: string;
                limit?: number;
                prefix?: string;
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                shared: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List the documents that agents share by name */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_NamedDocument_"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_shared_shared_documents_name: {
        parameters: {
            query?: {
                at?: string;
                user?: string;
                version?: number;
            };
            header?: {
                /** @description `*`: only if it does not exist. When reading, an ETag: 304 if it is current. */
                "If-None-Match"?: string;
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                name: string;
                shared: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get one of the documents that agents share, now or at an earlier time */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": Record<string, unknown>;
                };
            };
            /** @description It has not changed since the ETag. */
            304: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    put_shared_shared_documents_name: {
        parameters: {
            query?: {
                user?: string;
            };
            header?: {
                /** @description The ETag of the version to change; refused if it is not current. */
                "If-Match"?: string;
                /** @description `*`: only if it does not exist. When reading, an ETag: 304 if it is current. */
                "If-None-Match"?: string;
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                name: string;
                shared: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": Record<string, unknown>;
            };
        };
        responses: {
            /** @description Replace or create one of the documents that agents share */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": Record<string, unknown>;
                };
            };
            /** @description Replace or create one of the documents that agents share */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": Record<string, unknown>;
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    delete_shared_shared_documents_name: {
        parameters: {
            query?: {
                forget?: boolean;
                user?: string;
            };
            header?: {
                /** @description The ETag of the version to change; refused if it is not current. */
                "If-Match"?: string;
                /** @description `*`: only if it does not exist. When reading, an ETag: 304 if it is current. */
                "If-None-Match"?: string;
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                name: string;
                shared: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    patch_shared_shared_documents_name: {
        parameters: {
            query?: {
                user?: string;
            };
            header?: {
                /** @description The ETag of the version to change; refused if it is not current. */
                "If-Match"?: string;
                /** @description `*`: only if it does not exist. When reading, an ETag: 304 if it is current. */
                "If-None-Match"?: string;
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                name: string;
                shared: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/merge-patch+json": Record<string, unknown>;
            };
        };
        responses: {
            /** @description Apply a JSON merge patch to one of the documents that agents share */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": Record<string, unknown>;
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_shared_shared_documents_name_diff: {
        parameters: {
            query: {
                new?: number;
                old: number;
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                name: string;
                shared: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Compare two versions of one of the documents that agents share */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DocumentDiff"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_shared_shared_documents_name_history: {
        parameters: {
            query?: {
                limit?: number;
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                name: string;
                shared: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List the versions of one of the documents that agents share */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_PastVersion_"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    post_shared_shared_documents_name_undo: {
        parameters: {
            query?: {
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                name: string;
                shared: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["UndoBody"];
            };
        };
        responses: {
            /** @description Restore an earlier version of one of the documents that agents share */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": Record<string, unknown>;
                };
            };
            /** @description Done, with nothing to return. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_signals: {
        parameters: {
            query?: {
                replica?: string;
                since?: number;
                step?: number;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get what the processes measured over time, and what it concerned */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Signals"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_storage: {
        parameters: {
            query?: never;
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Count what the namespace holds, by kind, and get the size of the store */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StorageShown"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_storage_largest: {
        parameters: {
            query?: {
                limit?: number;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List the longest of the most recently changed conversations */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LargestThreads"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_tasks: {
        parameters: {
            query?: {
                after?: string;
                limit?: number;
                status?: "cancelled" | "completed" | "failed" | "pending" | "running";
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List tasks, newest first */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_TaskInfo_"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_tasks_task: {
        parameters: {
            query?: {
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                task: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get a task */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TaskInfo"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    post_tasks_task_cancel: {
        parameters: {
            query?: {
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                task: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ReasonBody"];
            };
        };
        responses: {
            /** @description Cancel a task; if it is running, discard its result */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TaskInfo"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    post_tasks_task_retry: {
        parameters: {
            query?: {
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                task: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Run a failed or cancelled task again */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TaskInfo"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_threads: {
        parameters: {
            query?: {
                after?: string;
                archived?: boolean;
                label?: string;
                limit?: number;
                prefix?: string;
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List conversations, newest first */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_ThreadInfo_"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_threads_thread: {
        parameters: {
            query?: {
                after?: string;
                as?: "agent-framework" | "anthropic" | "bedrock" | "gemini" | "langchain" | "llama-index" | "openai" | "openai-responses" | "pydantic-ai";
                exact?: boolean;
                last?: number;
                max_tokens?: number;
                oversized?: "raise" | "shorten";
                turns?: number;
                upto?: string;
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                thread: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get a window of a conversation */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ThreadWindow"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    delete_threads_thread: {
        parameters: {
            query?: {
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                thread: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_threads_thread_about: {
        parameters: {
            query?: {
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                thread: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get a conversation's title, labels, variables, summary, origin and late turns */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ThreadAbout"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    post_threads_thread_archive: {
        parameters: {
            query?: {
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                thread: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_threads_thread_branches: {
        parameters: {
            query?: {
                after?: string;
                limit?: number;
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                thread: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List the conversations that were forked from this one */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_Branch_"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_threads_thread_changes: {
        parameters: {
            query?: {
                after?: string;
                follow?: boolean;
                user?: string;
            };
            header?: {
                /** @description The id of the last event received. */
                "Last-Event-ID"?: string;
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                thread: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Stream every message after a cursor, and new ones as they arrive */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": {
                        data: string;
                        event?: string;
                        id?: string;
                    };
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    post_threads_thread_describe: {
        parameters: {
            query?: {
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                thread: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["DescribeBody"];
            };
        };
        responses: {
            /** @description Done. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    post_threads_thread_fork: {
        parameters: {
            query?: {
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                thread: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ForkBody"];
            };
        };
        responses: {
            /** @description Fork a conversation: start another one with its messages */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ForkAnswer"];
                };
            };
            /** @description Fork a conversation: start another one with its messages */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ForkAnswer"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_threads_thread_knew_version: {
        parameters: {
            query?: {
                against?: "before" | "now";
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                thread: string;
                version: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get what the agent was given when it wrote the turn of a message */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["KnowledgeShown"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_threads_thread_messages: {
        parameters: {
            query?: {
                after?: string;
                breaks?: boolean;
                limit?: number;
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                thread: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List messages with times, receipts and, on request, signs of lost context */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_TranscriptMessage_"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    post_threads_thread_messages: {
        parameters: {
            query?: {
                user?: string;
            };
            header?: {
                /** @description Identifies the request: repeats are carried out once. */
                "Idempotency-Key"?: string;
                /** @description The ETag of the version to change; refused if it is not current. */
                "If-Match"?: string;
                /** @description `*`: only if it does not exist. When reading, an ETag: 304 if it is current. */
                "If-None-Match"?: string;
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                thread: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["AppendBody"];
            };
        };
        responses: {
            /** @description Append messages, all or none */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AppendAnswer"];
                };
            };
            /** @description Append messages, all or none */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AppendAnswer"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    post_threads_thread_unarchive: {
        parameters: {
            query?: {
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                thread: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_users: {
        parameters: {
            query?: {
                after?: string;
                limit?: number;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List users by id */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_UserShown_"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_users_user: {
        parameters: {
            query?: never;
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                user: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Count what a user has, by kind */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UserKinds"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_users_user_documents: {
        parameters: {
            query?: {
                after?: string;
                limit?: number;
                prefix?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                user: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List a user's documents by name */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_NamedDocument_"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_users_user_documents_name: {
        parameters: {
            query?: {
                at?: string;
                version?: number;
            };
            header?: {
                /** @description `*`: only if it does not exist. When reading, an ETag: 304 if it is current. */
                "If-None-Match"?: string;
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                name: string;
                user: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get one of a user's documents, now or at an earlier time */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": Record<string, unknown>;
                };
            };
            /** @description It has not changed since the ETag. */
            304: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    put_users_user_documents_name: {
        parameters: {
            query?: never;
            header?: {
                /** @description The ETag of the version to change; refused if it is not current. */
                "If-Match"?: string;
                /** @description `*`: only if it does not exist. When reading, an ETag: 304 if it is current. */
                "If-None-Match"?: string;
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                name: string;
                user: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": Record<string, unknown>;
            };
        };
        responses: {
            /** @description Replace or create one of a user's documents */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": Record<string, unknown>;
                };
            };
            /** @description Replace or create one of a user's documents */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": Record<string, unknown>;
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    delete_users_user_documents_name: {
        parameters: {
            query?: {
                forget?: boolean;
            };
            header?: {
                /** @description The ETag of the version to change; refused if it is not current. */
                "If-Match"?: string;
                /** @description `*`: only if it does not exist. When reading, an ETag: 304 if it is current. */
                "If-None-Match"?: string;
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                name: string;
                user: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    patch_users_user_documents_name: {
        parameters: {
            query?: never;
            header?: {
                /** @description The ETag of the version to change; refused if it is not current. */
                "If-Match"?: string;
                /** @description `*`: only if it does not exist. When reading, an ETag: 304 if it is current. */
                "If-None-Match"?: string;
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                name: string;
                user: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/merge-patch+json": Record<string, unknown>;
            };
        };
        responses: {
            /** @description Apply a JSON merge patch to one of a user's documents */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": Record<string, unknown>;
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_users_user_documents_name_diff: {
        parameters: {
            query: {
                new?: number;
                old: number;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                name: string;
                user: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Compare two versions of one of a user's documents */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DocumentDiff"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_users_user_documents_name_history: {
        parameters: {
            query?: {
                limit?: number;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                name: string;
                user: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List the versions of one of a user's documents */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_PastVersion_"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    post_users_user_documents_name_undo: {
        parameters: {
            query?: never;
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                name: string;
                user: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["UndoBody"];
            };
        };
        responses: {
            /** @description Restore an earlier version of one of a user's documents */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": Record<string, unknown>;
                };
            };
            /** @description Done, with nothing to return. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    post_users_user_erase: {
        parameters: {
            query?: never;
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                user: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Permanently remove everything that belongs to a user */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ErasureReceipt"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_users_user_export: {
        parameters: {
            query?: never;
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                user: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Export everything that belongs to a user, one JSON object per line */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/x-ndjson": string;
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_waiting: {
        parameters: {
            query?: {
                after?: string;
                for?: string;
                limit?: number;
                signal?: string;
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List the open questions of workflows, oldest first */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_OpenQuestion_"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    post_waiting_question_answer: {
        parameters: {
            query?: never;
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                question: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ValueBody"];
            };
        };
        responses: {
            /** @description Answer a question; the first answer counts */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChangeMade"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_workflows: {
        parameters: {
            query?: {
                after?: string;
                kind?: string;
                limit?: number;
                status?: "active" | "cancelled" | "completed" | "failed";
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List workflows, newest first */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_WorkflowInfo_"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_workflows_workflow: {
        parameters: {
            query?: {
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                workflow: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get a workflow */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WorkflowInfo"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    delete_workflows_workflow: {
        parameters: {
            query?: {
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                workflow: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Done. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    post_workflows_workflow_cancel: {
        parameters: {
            query?: {
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                workflow: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ReasonBody"];
            };
        };
        responses: {
            /** @description Cancel a workflow and its children */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChangeMade"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    post_workflows_workflow_fork: {
        parameters: {
            query?: {
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                workflow: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["StepForkBody"];
            };
        };
        responses: {
            /** @description Fork a workflow: start another one from before one of its steps */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Begun"];
                };
            };
            /** @description Fork a workflow: start another one from before one of its steps */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Begun"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get_workflows_workflow_records: {
        parameters: {
            query?: {
                after?: string;
                limit?: number;
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                workflow: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List a workflow's records: steps with their results, signals, waits */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Page_WorkflowRecord_"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    post_workflows_workflow_retry: {
        parameters: {
            query?: {
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                workflow: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Resume a workflow that failed or was cancelled */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChangeMade"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    post_workflows_workflow_signals_signal: {
        parameters: {
            query?: {
                user?: string;
            };
            header?: {
                /** @description Identifies the request: repeats are carried out once. */
                "Idempotency-Key"?: string;
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                signal: string;
                workflow: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ValueBody"];
            };
        };
        responses: {
            /** @description Send a signal to a workflow */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChangeMade"];
                };
            };
            /** @description Send a signal to a workflow */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChangeMade"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    post_workflows_workflow_start: {
        parameters: {
            query?: {
                user?: string;
            };
            header?: {
                /** @description The namespace, if the key has access to several; percent-encoded. */
                "Stateward-Namespace"?: components["parameters"]["Namespace"];
            };
            path: {
                workflow: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["StartBody"];
            };
        };
        responses: {
            /** @description Start a workflow, for a worker to drive */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChangeMade"];
                };
            };
            /** @description Start a workflow, for a worker to drive */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChangeMade"];
                };
            };
            /** @description A problem document of RFC 9457. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
}
