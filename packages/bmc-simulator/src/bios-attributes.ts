/** BIOS attributes of every simulated machine, with the checks that the attribute registry describes. */

export type BiosValue = string | number | boolean | null;

export interface BiosAttribute {
  readonly name: string;
  readonly type: "Enumeration" | "Integer" | "String" | "Boolean" | "Password";
  readonly text: string;
  readonly initial: BiosValue;
  readonly values?: readonly string[];
  readonly min?: number;
  readonly max?: number;
  readonly readOnly?: true;
  /** Can be written only while another attribute has a value. */
  readonly onlyIf?: { readonly attribute: string; readonly value: string };
}

const ON_OFF = ["Enabled", "Disabled"];

export const BIOS_ATTRIBUTES: readonly BiosAttribute[] = [
  { name: "BootMode", type: "Enumeration", text: "Boot mode", initial: "Uefi", values: ["Uefi", "Bios"] },
  { name: "LogicalProc", type: "Enumeration", text: "Logical processor", initial: "Enabled", values: ON_OFF },
  { name: "ProcVirtualization", type: "Enumeration", text: "Virtualization", initial: "Enabled", values: ON_OFF },
  { name: "SriovGlobalEnable", type: "Enumeration", text: "SR-IOV", initial: "Disabled", values: ON_OFF },
  {
    name: "SysProfile",
    type: "Enumeration",
    text: "System profile",
    initial: "PerfPerWattOptimized",
    values: ["PerfPerWattOptimized", "PerfOptimized", "Custom"],
  },
  {
    name: "ProcTurboMode",
    type: "Enumeration",
    text: "Turbo mode",
    initial: "Enabled",
    values: ON_OFF,
    onlyIf: { attribute: "SysProfile", value: "Custom" },
  },
  { name: "NumaNodesPerSocket", type: "Integer", text: "NUMA nodes per socket", initial: 1, min: 1, max: 4 },
  { name: "FanPwmOffset", type: "Integer", text: "Fan offset (%)", initial: 0, min: 0, max: 100 },
  { name: "WatchdogEnabled", type: "Boolean", text: "Operating system watchdog", initial: false },
  { name: "AssetTag", type: "String", text: "Asset tag", initial: "", min: 0, max: 63 },
  { name: "SetupPassword", type: "Password", text: "Setup password", initial: null, min: 0, max: 32 },
  { name: "SystemCpldVersion", type: "String", text: "CPLD version", initial: "1.0.9", readOnly: true },
];

export const BIOS_DEFAULTS: Readonly<Record<string, BiosValue>> = Object.fromEntries(
  BIOS_ATTRIBUTES.map(({ name, initial }) => [name, initial]),
);

export interface BiosFlaw {
  readonly attribute: string;
  readonly messageId: string;
  readonly message: string;
}

/** The flaws of new values, given all values as they would be after the change. */
export function biosFlaws(
  changes: Readonly<Record<string, unknown>>,
  after: Readonly<Record<string, unknown>>,
): readonly BiosFlaw[] {
  return Object.entries(changes).flatMap(([name, value]) => {
    const attribute = BIOS_ATTRIBUTES.find((one) => one.name === name);
    if (attribute === undefined)
      return [{ attribute: name, messageId: "PropertyUnknown", message: `There is no BIOS attribute ${name}.` }];
    const flaw = flawOf(attribute, value, after);
    return flaw === null ? [] : [{ attribute: name, ...flaw }];
  });
}

export const isBiosValue = (value: unknown): value is BiosValue =>
  value === null || ["string", "number", "boolean"].includes(typeof value);

type Flaw = Pick<BiosFlaw, "messageId" | "message"> | null;

function flawOf(attribute: BiosAttribute, value: unknown, after: Readonly<Record<string, unknown>>): Flaw {
  const { name, readOnly, onlyIf } = attribute;
  if (readOnly) return { messageId: "PropertyNotWritable", message: `BIOS attribute ${name} is read-only.` };
  if (onlyIf && after[onlyIf.attribute] !== onlyIf.value)
    return {
      messageId: "PropertyNotWritable",
      message: `BIOS attribute ${name} is read-only unless ${onlyIf.attribute} is ${onlyIf.value}.`,
    };
  switch (attribute.type) {
    case "Enumeration":
      return attribute.values?.some((one) => one === value)
        ? null
        : {
            messageId: "PropertyValueNotInList",
            message: `BIOS attribute ${name} takes ${attribute.values?.join(", ")}.`,
          };
    case "Boolean":
      return typeof value === "boolean" ? null : typeFlaw(name, "a boolean");
    case "Integer":
      if (typeof value !== "number" || !Number.isInteger(value)) return typeFlaw(name, "an integer");
      return within(attribute, value) ? null : rangeFlaw(attribute, "from");
    case "String":
    case "Password":
      if (typeof value !== "string") return typeFlaw(name, "a string");
      return within(attribute, value.length) ? null : rangeFlaw(attribute, "of a length from");
  }
}

function within({ min = 0, max = Infinity }: BiosAttribute, size: number): boolean {
  return size >= min && size <= max;
}

function typeFlaw(name: string, type: string): Flaw {
  return { messageId: "PropertyValueTypeError", message: `BIOS attribute ${name} takes ${type}.` };
}

function rangeFlaw({ name, min, max }: BiosAttribute, words: string): Flaw {
  return {
    messageId: "PropertyValueOutOfRange",
    message: `BIOS attribute ${name} takes a value ${words} ${min} to ${max}.`,
  };
}

/** The attribute registry, in the form of AttributeRegistry.v1_3_0. */
export function attributeRegistry(id: string): Record<string, unknown> {
  return {
    "@odata.type": "#AttributeRegistry.v1_3_0.AttributeRegistry",
    Id: id,
    Name: "BIOS Attribute Registry",
    Language: "en",
    OwningEntity: "Ostler",
    RegistryVersion: "1.0.0",
    RegistryEntries: {
      Attributes: BIOS_ATTRIBUTES.map(registryEntry),
      Dependencies: BIOS_ATTRIBUTES.flatMap(({ name, onlyIf }) =>
        onlyIf === undefined
          ? []
          : [
              {
                Type: "Map",
                DependencyFor: name,
                Dependency: {
                  MapFrom: [
                    {
                      MapFromAttribute: onlyIf.attribute,
                      MapFromCondition: "NEQ",
                      MapFromProperty: "CurrentValue",
                      MapFromValue: onlyIf.value,
                    },
                  ],
                  MapToAttribute: name,
                  MapToProperty: "ReadOnly",
                  MapToValue: true,
                },
              },
            ],
      ),
    },
  };
}

function registryEntry({ name, type, text, initial, values, min, max, readOnly, onlyIf }: BiosAttribute) {
  const bounds =
    type === "Integer" ? { LowerBound: min, UpperBound: max, ScalarIncrement: 1 } : { MinLength: min, MaxLength: max };
  return {
    AttributeName: name,
    Type: type,
    DisplayName: text,
    DefaultValue: initial,
    ReadOnly: readOnly === true || onlyIf !== undefined,
    ResetRequired: true,
    ...(values ? { Value: values.map((value) => ({ ValueName: value, ValueDisplayName: value })) } : {}),
    ...(min === undefined ? {} : bounds),
  };
}
