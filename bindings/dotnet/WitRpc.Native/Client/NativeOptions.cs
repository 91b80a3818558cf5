using WitRpc.Native.Interop;

namespace WitRpc.Native;

/// <summary>Writes a client's options into a native options object. Decides nothing.</summary>
internal static unsafe class NativeOptions
{
    internal static ClientOptionsHandle Create(WitClientBuilderOptions o, ClientCallbacks callbacks)
    {
        if (o.Endpoints.Count == 0)
        {
            throw new InvalidOperationException("the options don't say where the server is: call WithTcp, WithWebSocket, WithNamedPipe or WithEndpoint");
        }
        int status = NativeMethods.witrpc_client_options_new(NativeText.Checked(o.Endpoints[0], "endpoint"), out nint value, out nint error);
        WitRpcException.ThrowIfFailed(status, error);
        var h = new ClientOptionsHandle(value);
        try
        {
            Fill(h, o, callbacks);
        }
        catch
        {
            h.Dispose();
            throw;
        }
        return h;
    }

    private static void Fill(ClientOptionsHandle h, WitClientBuilderOptions o, ClientCallbacks callbacks)
    {
        foreach (string endpoint in o.Endpoints.Skip(1))
        {
            Check(NativeMethods.witrpc_client_options_add_endpoint(h, NativeText.Checked(endpoint, "endpoint")), "endpoint");
        }
        Check(NativeMethods.witrpc_client_options_connect_timeout_ms(h, Millis(o.ConnectTimeout)), nameof(o.ConnectTimeout));
        if (o.AttemptTimeout is { } timeout)
        {
            Check(NativeMethods.witrpc_client_options_attempt_timeout_ms(h, Millis(timeout)), "WithTimeout");
        }
        Check(NativeMethods.witrpc_client_options_max_frame(h, Size(o.MaxMessageSize)), nameof(o.MaxMessageSize));
        Check(NativeMethods.witrpc_client_options_queue_limits(h, Size(o.MaxQueuedCalls), Size(o.MaxQueuedBytes)), nameof(o.MaxQueuedCalls));
        Check(NativeMethods.witrpc_client_options_max_in_flight(h, Size(o.MaxInFlight)), nameof(o.MaxInFlight));
        Check(NativeMethods.witrpc_client_options_keepalive(h, Millis(o.KeepAlive), 5000, 3), nameof(o.KeepAlive));
        if (o.WebSocketFragment is { } fragment)
        {
            Check(NativeMethods.witrpc_client_options_websocket_fragment(h, Size(fragment)), "bufferSize");
        }
        Check(NativeMethods.witrpc_client_options_codec(h, o.Codec.NativeNumber), "codec");
        Check(NativeMethods.witrpc_client_options_method_lookup(h, (int)o.MethodLookup), nameof(o.MethodLookup));
        Check(NativeMethods.witrpc_client_options_type_names(h, o.StrongTypeNames ? 1 : 0), nameof(o.StrongTypeNames));
        Check(NativeMethods.witrpc_client_options_encryption(h, Flag(o.Encryption)), "encryption");
        FillToken(h, o);
        if (o.Tls is { } tls)
        {
            FillTls(h, tls);
        }
        if (o.Reconnect is { } reconnect)
        {
            FillReconnect(h, reconnect);
        }
        if (o.Retry is { } retry)
        {
            FillRetry(h, retry);
        }
        callbacks.Register(h, askAboutFailures: o.Retry is { RetryableExceptionTypes.Count: > 0 });
    }

    private static void FillToken(ClientOptionsHandle h, WitClientBuilderOptions o)
    {
        if (o.Token is { } token)
        {
            Check(NativeMethods.witrpc_client_options_token(h, NativeText.Checked(token, nameof(token))), "access token");
        }
        else if (o.TokenFile is { } path)
        {
            Check(NativeMethods.witrpc_client_options_token_file(h, NativeText.Checked(path, nameof(path))), "access token file");
        }
        else if (o.TokenProvider is { } provider)
        {
            TokenQuestion.Register(h, provider, o.ConnectTimeout, o.Logger);
        }
    }

    private static void FillTls(ClientOptionsHandle h, TlsOptions tls)
    {
        if (tls.TargetHost is { } name)
        {
            Check(NativeMethods.witrpc_client_options_tls_server_name(h, NativeText.Checked(name, nameof(name))), nameof(tls.TargetHost));
        }
        if (tls.AuthoritiesFile is { } authorities)
        {
            Check(NativeMethods.witrpc_client_options_tls_authorities_file(h, NativeText.Checked(authorities, nameof(authorities))), nameof(tls.AuthoritiesFile));
        }
        Check(NativeMethods.witrpc_client_options_tls_system_authorities(h, Flag(tls.TrustSystemAuthorities)), nameof(tls.TrustSystemAuthorities));
        foreach (byte[] pin in tls.PinnedCertificates)
        {
            if (pin.Length != 32)
            {
                throw new ArgumentException($"a pinned certificate is given by its SHA-256, 32 bytes, and this has {pin.Length}");
            }
            fixed (byte* p = pin)
            {
                Check(NativeMethods.witrpc_client_options_tls_pin(h, p), nameof(tls.PinnedCertificates));
            }
        }
        if (tls.CertificateFile is { } certificate)
        {
            string key = tls.KeyFile ?? certificate;
            Check(NativeMethods.witrpc_client_options_tls_identity_files(h, NativeText.Checked(certificate, nameof(certificate)), NativeText.Checked(key, nameof(key))), nameof(tls.CertificateFile));
        }
    }

    private static void FillReconnect(ClientOptionsHandle h, ReconnectOptions r)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(r.MaxAttempts);
        Check(NativeMethods.witrpc_client_options_reconnect_max_attempts(h, (uint)r.MaxAttempts), nameof(r.MaxAttempts));
        Check(NativeMethods.witrpc_client_options_reconnect_delays(h, Millis(r.InitialDelay), Millis(r.MaxDelay), r.BackoffMultiplier), nameof(r.InitialDelay));
        Check(NativeMethods.witrpc_client_options_reconnect_jitter(h, (int)r.Jitter, Flag(r.RandomFirstDelay)), nameof(r.Jitter));
        Check(NativeMethods.witrpc_client_options_reconnect_on_disconnect(h, Flag(r.ReconnectOnDisconnect)), nameof(r.ReconnectOnDisconnect));
        Check(NativeMethods.witrpc_client_options_reconnect_first_connect(h, Flag(r.RetryFirstConnect)), nameof(r.RetryFirstConnect));
        Check(NativeMethods.witrpc_client_options_reconnect_stable_after_ms(h, Millis(r.StableAfter)), nameof(r.StableAfter));
    }

    private static void FillRetry(ClientOptionsHandle h, RetryOptions r)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(r.MaxRetries);
        Check(NativeMethods.witrpc_client_options_retry_max_retries(h, (uint)r.MaxRetries), nameof(r.MaxRetries));
        Check(NativeMethods.witrpc_client_options_retry_delays(h, Millis(r.InitialDelay), Millis(r.MaxDelay), (int)r.BackoffType, r.BackoffMultiplier), nameof(r.InitialDelay));
        Check(NativeMethods.witrpc_client_options_retry_jitter(h, (int)r.Jitter), nameof(r.Jitter));
        int[] statuses = [.. r.RetryableStatuses.Select(s => (int)s)];
        fixed (int* p = statuses)
        {
            Check(NativeMethods.witrpc_client_options_retry_statuses(h, p, (nuint)statuses.Length), nameof(r.RetryableStatuses));
        }
        if (r.BudgetPerSecond is { } reserve)
        {
            ArgumentOutOfRangeException.ThrowIfNegative(reserve);
            ArgumentOutOfRangeException.ThrowIfNegative(r.BudgetPercent);
            Check(NativeMethods.witrpc_client_options_retry_budget(h, (uint)reserve, (uint)r.BudgetPercent), nameof(r.BudgetPerSecond));
        }
        else
        {
            Check(NativeMethods.witrpc_client_options_retry_no_budget(h), nameof(r.BudgetPerSecond));
        }
        foreach (string method in r.IdempotentMethods)
        {
            Check(NativeMethods.witrpc_client_options_mark_idempotent(h, NativeText.Checked(method, nameof(method))), nameof(r.MarkIdempotent));
        }
        foreach (string method in r.DeduplicatedMethods)
        {
            Check(NativeMethods.witrpc_client_options_mark_deduplicated(h, NativeText.Checked(method, nameof(method))), nameof(r.MarkDeduplicated));
        }
        if (r.RetryAllMethods)
        {
            Check(NativeMethods.witrpc_client_options_retry_all_methods(h), nameof(r.RetryAllMethods));
        }
    }

    internal static byte Flag(bool value) => value ? (byte)1 : (byte)0;

    internal static nuint Size(int value)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(value);
        return (nuint)value;
    }

    /// <summary>Milliseconds, rounded up, so that a short limit does not become none.</summary>
    internal static ulong Millis(TimeSpan span)
    {
        if (span == Timeout.InfiniteTimeSpan || span == TimeSpan.MaxValue)
        {
            return NativeMethods.NoTimeout;
        }
        ArgumentOutOfRangeException.ThrowIfLessThan(span, TimeSpan.Zero);
        return (ulong)Math.Ceiling(span.TotalMilliseconds);
    }

    private static void Check(int status, string option)
    {
        if (status != 0)
        {
            throw new WitRpcException((WitErrorCode)status, $"the option {option} is not accepted");
        }
    }
}
