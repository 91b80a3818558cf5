using System.Buffers;
using System.Diagnostics.CodeAnalysis;
using System.Text.Json;
using System.Text.Json.Serialization;
using System.Text.Json.Serialization.Metadata;

namespace WitRpc.Native;

/// <summary>
/// System.Text.Json with its default options, WitRPC's default codec. Types are known from the resolver that is given, from a
/// built-in one for scalars and their collections, and where reflection is enabled (it is not in an AOT program) from
/// reflection.
/// </summary>
internal sealed class JsonCodec : WitCodec
{
    [ThreadStatic]
    private static Utf8JsonWriter? writer;

    private readonly JsonSerializerOptions options;

    internal JsonCodec(IJsonTypeInfoResolver? resolver)
    {
        var resolvers = new List<IJsonTypeInfoResolver?> { resolver, ScalarJsonContext.Default };
        if (JsonSerializer.IsReflectionEnabledByDefault)
        {
            resolvers.Add(Reflection());
        }
        options = new JsonSerializerOptions { TypeInfoResolver = JsonTypeInfoResolver.Combine([.. resolvers]) };
        options.MakeReadOnly();
    }

    public override int NativeNumber => 0;

    public override void Write<T>(IBufferWriter<byte> output, T value)
    {
        Utf8JsonWriter json = Interlocked.Exchange(ref writer, null) ?? new Utf8JsonWriter(output);
        json.Reset(output);
        try
        {
            JsonSerializer.Serialize(json, value, Info<T>());
            json.Flush();
        }
        finally
        {
            json.Reset(Stream.Null);
            writer = json;
        }
    }

    public override T? Read<T>(ReadOnlySpan<byte> bytes) where T : default => JsonSerializer.Deserialize(bytes, Info<T>());

    private JsonTypeInfo<T> Info<T>() => (JsonTypeInfo<T>)options.GetTypeInfo(typeof(T));

    [UnconditionalSuppressMessage("Trimming", "IL2026", Justification = "Only reached where reflection-based serialization is enabled, which trimmed programs must do on purpose.")]
    [UnconditionalSuppressMessage("AOT", "IL3050", Justification = "As above.")]
    private static DefaultJsonTypeInfoResolver Reflection() => new();
}

/// <summary>What needs no declaration in AOT programs.</summary>
[JsonSerializable(typeof(bool))]
[JsonSerializable(typeof(char))]
[JsonSerializable(typeof(sbyte))]
[JsonSerializable(typeof(byte))]
[JsonSerializable(typeof(short))]
[JsonSerializable(typeof(ushort))]
[JsonSerializable(typeof(int))]
[JsonSerializable(typeof(uint))]
[JsonSerializable(typeof(long))]
[JsonSerializable(typeof(ulong))]
[JsonSerializable(typeof(float))]
[JsonSerializable(typeof(double))]
[JsonSerializable(typeof(decimal))]
[JsonSerializable(typeof(string))]
[JsonSerializable(typeof(Guid))]
[JsonSerializable(typeof(DateTime))]
[JsonSerializable(typeof(DateTimeOffset))]
[JsonSerializable(typeof(TimeSpan))]
[JsonSerializable(typeof(DateOnly))]
[JsonSerializable(typeof(TimeOnly))]
[JsonSerializable(typeof(Uri))]
[JsonSerializable(typeof(Version))]
[JsonSerializable(typeof(bool?))]
[JsonSerializable(typeof(int?))]
[JsonSerializable(typeof(long?))]
[JsonSerializable(typeof(double?))]
[JsonSerializable(typeof(decimal?))]
[JsonSerializable(typeof(Guid?))]
[JsonSerializable(typeof(DateTime?))]
[JsonSerializable(typeof(DateTimeOffset?))]
[JsonSerializable(typeof(TimeSpan?))]
[JsonSerializable(typeof(byte[]))]
[JsonSerializable(typeof(int[]))]
[JsonSerializable(typeof(long[]))]
[JsonSerializable(typeof(double[]))]
[JsonSerializable(typeof(string[]))]
[JsonSerializable(typeof(List<int>))]
[JsonSerializable(typeof(List<long>))]
[JsonSerializable(typeof(List<double>))]
[JsonSerializable(typeof(List<string>))]
[JsonSerializable(typeof(Dictionary<string, string>))]
[JsonSerializable(typeof(Dictionary<string, int>))]
internal sealed partial class ScalarJsonContext : JsonSerializerContext;
