/** Images of operating systems: the type, its queries, and the inputs by which verbs name one. */
import type { InputShapeFromFields } from "@pothos/core";
import { countImages, imageByRef, imagesPage } from "../../../store/images.ts";
import type { ImageFilter, ImageRef as ImageChoice, ImageRow } from "../../../store/images.ts";
import { nameKey } from "../../../store/names.ts";
import { builder, givenMembers, needs } from "../../base/builder.ts";
import type { InputFields, OutputFields } from "../../base/builder.ts";
import { connectionOf, connectionType, pageArgs, pageRequest } from "../../base/connection.ts";
import { ArchitectureEnum, BootModeEnum, ChecksumAlgorithmEnum, ImageFormatEnum } from "../../base/enums.ts";
import { globalId, keyOf, uuidOrNone } from "../../base/ids.ts";
import { ClusterRef, NodeRef, OperationRef, RunRef } from "../../base/refs.ts";
import { LabelRef } from "../nodes/node.ts";
import { WorkResultRef } from "../work/node-work.ts";
import { LabelInput, wantedLabels } from "../selectors.ts";

const ChecksumRef = builder.objectRef<Pick<ImageRow, "checksum" | "checksumAlgorithm">>("Checksum").implement({
  description: "Checksum of a file.",
  fields: (t) => ({
    algorithm: t.expose("checksumAlgorithm", {
      type: ChecksumAlgorithmEnum,
      description: "Function that computed the value.",
    }),
    value: t.exposeString("checksum", { description: "Hexadecimal digits, in lower case." }),
  }),
});

export const ImageRef = builder.objectRef<ImageRow>("Image");
builder.objectType(ImageRef, {
  description:
    "Image of an operating system that deployments write to disks. Its content never changes: the checksum identifies it.",
  fields: (t) => ({
    id: t.id({ description: "Global ID: opaque and stable.", resolve: ({ id }) => globalId("Image", id) }),
    uuid: t.expose("id", { type: "UUID", description: "UUID as used in messages and logs." }),
    name: t.exposeString("name", { description: "Unique name." }),
    description: t.string({
      description: "Purpose, in the operator's words; empty if none is given.",
      resolve: ({ description }) => description ?? "",
    }),
    url: t.exposeString("url", {
      nullable: true,
      description: "Address from which machines download the file; null if the service stores it.",
    }),
    stored: t.boolean({
      description: "Whether the service stores the file and serves it to machines.",
      resolve: ({ url }) => url === null,
    }),
    format: t.expose("format", { type: ImageFormatEnum, description: "Format of the file." }),
    sizeBytes: t.expose("sizeBytes", { type: "ByteCount", description: "Size of the file." }),
    diskBytes: t.expose("diskBytes", {
      type: "ByteCount",
      nullable: true,
      description: "Size on the disk, that is unpacked; null if unknown.",
    }),
    checksum: t.field({ type: ChecksumRef, description: "Checksum of the file.", resolve: (image) => image }),
    architecture: t.expose("architecture", {
      type: ArchitectureEnum,
      description: "Processor architecture.",
    }),
    bootMode: t.expose("bootMode", {
      type: BootModeEnum,
      nullable: true,
      description: "Only firmware mode in which it starts; null if it starts in both.",
    }),
    labels: t.field({
      type: [LabelRef],
      description: "Labels, sorted by key.",
      resolve: ({ labels }) =>
        Object.entries(labels)
          .toSorted(([a], [b]) => (a < b ? -1 : 1))
          .map(([key, value]) => ({ key, value })),
    }),
    callsHome: t.exposeBoolean("callsHome", {
      description: "Whether the installed system reports that it runs: a deployment then waits for the report.",
    }),
    userDataBytes: t.exposeInt("userDataBytes", {
      nullable: true,
      description: "Size of the default user data in bytes; null if none is set. The text is never returned.",
    }),
    revision: t.exposeInt("revision", {
      description: "Increases with every change. Send it as `ifRevision` to detect concurrent changes.",
    }),
    createdAt: t.expose("createdAt", { type: "DateTime", description: "Time of registration." }),
    updatedAt: t.expose("updatedAt", { type: "DateTime", description: "Time of the last change." }),
  }),
});

export const ImageRefInput = builder.inputType("ImageRef", {
  description: "Reference to an image. Exactly one field.",
  isOneOf: true,
  fields: (t) => ({
    id: t.id({ description: "By global ID or UUID." }),
    name: t.string({ description: "By name, in any case." }),
  }),
});

export function imageChoice({ id, name }: typeof ImageRefInput.$inferInput): ImageChoice {
  return name == null ? { id: keyOf("Image", id ?? "") } : { name };
}

const ImageConnection = connectionType("Image", ImageRef);

const ImageFilterInput = builder.inputType("ImageFilter", {
  description: "Filter for images. The given fields are combined with AND.",
  fields: (t) => ({
    nameStartsWith: t.string({ description: "With a name that starts with this text." }),
    architectures: t.field({
      type: [ArchitectureEnum],
      description: "For one of these architectures; an empty list matches nothing.",
    }),
    bootModes: t.field({
      type: [BootModeEnum],
      description: "That start in one of these firmware modes; an empty list matches nothing.",
    }),
    formats: t.field({
      type: [ImageFormatEnum],
      description: "In one of these formats; an empty list matches nothing.",
    }),
    stored: t.boolean({ description: "True: stored by the service. False: at an address elsewhere." }),
    labels: t.field({ type: [LabelInput], description: "With all of these labels; an empty list matches nothing." }),
    checksum: t.string({ description: "With this checksum, in hexadecimal digits." }),
  }),
});

function imageFilter(filter: typeof ImageFilterInput.$inferInput | null | undefined): ImageFilter {
  const { labels, ...plain } = filter ?? {};
  return { ...givenMembers(plain), labels: wantedLabels(labels) };
}

builder.queryField("image", (t) =>
  t.field({
    type: ImageRef,
    nullable: true,
    ...needs("READ"),
    description: "One image by ID or name; null if it does not exist.",
    args: { by: t.arg({ type: ImageRefInput, required: true, description: "Reference to it by ID or name." }) },
    resolve: async (_root, { by }, { services, load }) => {
      const choice = imageChoice(by);
      if ("id" in choice) return load.image.load(uuidOrNone(choice.id));
      return (await imageByRef(services.database.reader, choice)) ?? null;
    },
  }),
);

builder.queryField("images", (t) =>
  t.field({
    type: ImageConnection,
    ...needs("READ"),
    description: "Images that match a filter, sorted by name; all images without one.",
    args: {
      filter: t.arg({ type: ImageFilterInput, description: "Only matching images; by default all." }),
      ...pageArgs(t.arg),
    },
    resolve: async (_root, args, { services }) => {
      const { reader } = services.database;
      const filter = imageFilter(args.filter);
      return connectionOf(
        await imagesPage(reader, filter, pageRequest(args, "text")),
        ({ name }) => nameKey(name),
        () => countImages(reader, filter),
      );
    },
  }),
);

// ---- images of other objects

function imageField<Shape extends { readonly imageId?: string | null }>(t: OutputFields<Shape>, description: string) {
  return t.field({
    type: ImageRef,
    nullable: true,
    description,
    resolve: ({ imageId }, _args, { load }) => (imageId == null ? null : load.image.load(imageId)),
  });
}

builder.objectField(NodeRef, "image", (t) =>
  imageField(
    t,
    "Image that the node's system was last installed from; null after an undeployment or a cleaning, for a system without an image, and if the image was deleted.",
  ),
);

builder.objectField(ClusterRef, "image", (t) =>
  imageField(t, "Image that its nodes should have; null if it wants none."),
);

builder.objectFields(OperationRef, (t) => ({
  image: imageField(t, "Image that the operation installs; null if it names none, and if the image was deleted."),
  userDataBytes: t.exposeInt("userDataBytes", {
    nullable: true,
    description:
      "Size in bytes of the user data that the operation passes to the installed systems; null if it has none. The text is never returned.",
  }),
}));

builder.objectField(RunRef, "image", (t) =>
  t.field({
    type: ImageRef,
    nullable: true,
    description: "Image of the operation; null for a clean-up run, without an image, and if the image was deleted.",
    resolve: async ({ operationId, purpose }, _args, { load }) => {
      const imageId = purpose === "WORK" ? (await load.operation.load(operationId))?.imageId : null;
      return imageId == null ? null : load.image.load(imageId);
    },
  }),
);

builder.objectField(WorkResultRef, "image", (t) =>
  imageField(t, "Image that the plan installs on the node; null for a refused node, and if the plan installs none."),
);

/** The image and the user data, in the inputs of verbs that install. */
export const imageFields = (t: InputFields) => ({
  image: t.field({
    type: ImageRefInput,
    description:
      "Image to install. Required if the driver that deploys a node writes images; the other drivers receive it too.",
  }),
  userData: t.string({
    description:
      "User data for cloud-init on the installed systems, at most 64 KiB. A secret: never returned or logged. By default that of the image; null for none. A restart keeps it.",
  }),
});

/** Fields of the inputs of verbs that deploy. */
export const installFields = (t: InputFields) => ({
  ...imageFields(t),
  hostGroup: t.string({
    description:
      "Host group to deploy the nodes for; a node joins it at the end of its deployment. Drivers receive it as the variable `host_group`. By default the nodes keep their host group.",
  }),
});

/** The values of `imageFields` as the engine takes them. */
export function imageOf({ image, userData }: InputShapeFromFields<ReturnType<typeof imageFields>>) {
  return { ...(image && { image: imageChoice(image) }), ...(userData !== undefined && { userData }) };
}

/** The values of `installFields` as the engine takes them. */
export function installOf({ hostGroup, ...install }: InputShapeFromFields<ReturnType<typeof installFields>>) {
  return {
    ...imageOf(install),
    ...(hostGroup != null && { hostGroup }),
  };
}
