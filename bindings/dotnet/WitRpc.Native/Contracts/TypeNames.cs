using System.Text;

namespace WitRpc.Native;

/// <summary>
/// Names of types that are known when a generic method is called: as method lines and contract documents write them, and as the
/// native library tells a server of them.
/// </summary>
internal static class TypeNames
{
    private static readonly Dictionary<Type, string> Keywords = new()
    {
        [typeof(bool)] = "bool",
        [typeof(char)] = "char",
        [typeof(sbyte)] = "sbyte",
        [typeof(byte)] = "byte",
        [typeof(short)] = "short",
        [typeof(ushort)] = "ushort",
        [typeof(int)] = "int",
        [typeof(uint)] = "uint",
        [typeof(long)] = "long",
        [typeof(ulong)] = "ulong",
        [typeof(float)] = "float",
        [typeof(double)] = "double",
        [typeof(decimal)] = "decimal",
        [typeof(string)] = "string",
        [typeof(object)] = "object",
    };

    /// <summary>The full .NET name: nested types with <c>+</c>, generic ones with their arguments.</summary>
    internal static string Line(Type type) => Write(type, isShort: false);

    /// <summary>As the native library writes it: keywords, <c>?</c>, and .NET's own types without their namespace.</summary>
    internal static string Short(Type type) => Write(type, isShort: true);

    /// <summary>Collects the types that are not .NET's own, by their definitions, as entries of a contract document.</summary>
    internal static void Declare(Type type, SortedDictionary<string, string> entries)
    {
        if (type.IsArray)
        {
            Declare(type.GetElementType()!, entries);
            return;
        }
        foreach (Type argument in type.GetGenericArguments())
        {
            Declare(argument, entries);
        }
        if (IsFramework(type))
        {
            return;
        }
        Type definition = type.IsGenericType ? type.GetGenericTypeDefinition() : type;
        string name = Named(definition, definition.GetGenericArguments(), static parameter => parameter.Name);
        string kind = type.IsEnum ? "enum" : type.IsValueType ? "struct" : type.IsInterface ? "interface" : "class";
        entries[name] = $$"""{ "{{kind}}": "{{name}}"{{Values(type)}}, "assembly": "{{type.Assembly.GetName().Name}}" }""";
    }

    private static string Values(Type type)
    {
        if (!type.IsEnum)
        {
            return "";
        }
        Type underlying = type.GetEnumUnderlyingType();
        string of = underlying == typeof(int) ? "" : $", \"of\": \"{Keywords[underlying]}\"";
        IEnumerable<string> values = type.GetEnumNames().Zip(Enum.GetValuesAsUnderlyingType(type).Cast<object>(), (name, value) => FormattableString.Invariant($"\"{name}\": {value}"));
        return $"{of}, \"values\": {{ {string.Join(", ", values)} }}";
    }

    private static string Write(Type type, bool isShort)
    {
        if (type.IsArray)
        {
            // C# writes the outer ranks first: int[][,] is an array of int[,].
            var ranks = new StringBuilder();
            for (; type.IsArray; type = type.GetElementType()!)
            {
                ranks.Append('[').Append(',', type.GetArrayRank() - 1).Append(']');
            }
            return Write(type, isShort) + ranks;
        }
        if (isShort && Keywords.TryGetValue(type, out string? keyword))
        {
            return keyword;
        }
        if (isShort && Nullable.GetUnderlyingType(type) is { } inner)
        {
            return Write(inner, isShort) + "?";
        }
        return Named(type, type.GetGenericArguments(), argument => Write(argument, isShort), isShort && IsFramework(type));
    }

    /// <summary>The arguments of a nested type are spread over it and those around it.</summary>
    private static string Named(Type type, Type[] arguments, Func<Type, string> write, bool isBare = false)
    {
        string prefix = "";
        int taken = 0;
        if (type.DeclaringType is { } outer)
        {
            taken = outer.GetGenericArguments().Length;
            prefix = Named(outer, arguments[..taken], write, isBare) + "+";
        }
        else if (!isBare)
        {
            prefix = string.IsNullOrEmpty(type.Namespace) ? "global::" : type.Namespace + ".";
        }
        int tick = type.Name.IndexOf('`');
        string name = tick < 0 ? type.Name : type.Name[..tick];
        string own = taken == arguments.Length ? "" : $"<{string.Join(", ", arguments[taken..].Select(write))}>";
        return prefix + name + own;
    }

    private static bool IsFramework(Type type) => type.Namespace is { } space && (space == "System" || space.StartsWith("System.", StringComparison.Ordinal));
}
