using System.Collections.Concurrent;
using System.ComponentModel;

namespace WitRpc.Native;

/// <summary>
/// Says with which type arguments a server serves a generic method of a contract; once for each set of them. A server
/// runs nothing else: types are never made from names on the wire. Clients need no such attribute.
/// </summary>
/// <param name="types">A type for each type parameter.</param>
[AttributeUsage(AttributeTargets.Method, AllowMultiple = true)]
public sealed class WitTypeArgumentsAttribute(params Type[] types) : Attribute
{
    /// <summary>The types.</summary>
    public IReadOnlyList<Type> Types { get; } = types;
}

/// <summary>The types that a contract declares. For generated code.</summary>
/// <param name="contract">Name of the contract.</param>
/// <param name="assembly">The assembly that it is in.</param>
/// <param name="entries">Names of types, and what a contract document says of them.</param>
[EditorBrowsable(EditorBrowsableState.Never)]
public sealed class WitContractTypes(string contract, string assembly, (string Name, string Entry)[] entries)
{
    /// <summary>A contract document with these types and more; null if there are none.</summary>
    internal string? Json(SortedDictionary<string, string> more)
    {
        foreach ((string name, string entry) in entries)
        {
            more[name] = entry;
        }
        return more.Count == 0 ? null : $$"""{ "contract": "{{contract}}", "assembly": "{{assembly}}", "types": [{{string.Join(", ", more.Values)}}] }""";
    }
}

/// <summary>A generic method: its line is made, once for each set of type arguments, when it is called. For generated code.</summary>
/// <param name="types">The types that the contract declares.</param>
/// <param name="open">The line with its type parameters, as <c>Echo&lt;T&gt;(T)</c>.</param>
/// <param name="parameters">Names of the type parameters.</param>
[EditorBrowsable(EditorBrowsableState.Never)]
public sealed class WitGenericMethod(WitContractTypes types, string open, string[] parameters)
{
    private readonly ConcurrentDictionary<Arguments, (WitMethod Method, string? ContractJson)> closed = new();

    /// <summary>The method with its type arguments, and the contract document that names their assemblies, if it needs one.</summary>
    internal (WitMethod Method, string? ContractJson) Close(Type[] arguments) => closed.GetOrAdd(
        new Arguments(arguments),
        static (key, self) =>
        {
            var declared = new SortedDictionary<string, string>(StringComparer.Ordinal);
            Array.ForEach(key.Types, type => TypeNames.Declare(type, declared));
            return (new WitMethod(self.Line(key.Types)), self.Types.Json(declared));
        },
        this);

    private WitContractTypes Types => types;

    private string Line(Type[] arguments) => open + string.Concat(parameters.Select((name, i) => $" where {name} = {TypeNames.Line(arguments[i])}"));

    private readonly struct Arguments(Type[] types) : IEquatable<Arguments>
    {
        internal Type[] Types => types;

        public bool Equals(Arguments other) => types.AsSpan().SequenceEqual(other.Types);

        public override bool Equals(object? obj) => obj is Arguments other && Equals(other);

        public override int GetHashCode() => types.Aggregate(0, HashCode.Combine);
    }
}
