/** Mutations that register, change and delete images. They start no work. */
import type { ImagesEdited } from "../../../engine/images/images.ts";
import { imagesByIds } from "../../../store/images.ts";
import { builder, given, needs } from "../../base/builder.ts";
import type { OutputFields } from "../../base/builder.ts";
import { callerOf } from "../../base/context.ts";
import { ArchitectureEnum, BootModeEnum, ChecksumAlgorithmEnum, ImageFormatEnum } from "../../base/enums.ts";
import { refusalFields } from "../../base/payload.ts";
import { ImageRef, ImageRefInput, imageChoice } from "./image.ts";
import { LabelInput, labelsOf } from "../selectors.ts";

const imagesRefused = (t: OutputFields<ImagesEdited>) =>
  refusalFields(t, "Every reason why the request was refused; empty if it succeeded.");

const RegisterImagesPayloadRef = builder.objectRef<ImagesEdited>("RegisterImagesPayload").implement({
  description: "Answer to registerImages.",
  fields: (t) => ({
    images: t.field({
      type: [ImageRef],
      description: "The images, in the order of the request; empty if the request was refused.",
      resolve: async ({ imageIds }, _args, { services }) => {
        const rows = new Map((await imagesByIds(services.database.reader, imageIds)).map((row) => [row.id, row]));
        return imageIds.flatMap((id) => rows.get(id) ?? []);
      },
    }),
    ...imagesRefused(t),
  }),
});

const UpdateImagePayloadRef = builder.objectRef<ImagesEdited>("UpdateImagePayload").implement({
  description: "Answer to updateImage.",
  fields: (t) => ({
    image: t.field({
      type: ImageRef,
      nullable: true,
      description: "The image after the change; null if the request was refused.",
      resolve: async ({ imageIds }, _args, { services }) =>
        (await imagesByIds(services.database.reader, imageIds))[0] ?? null,
    }),
    ...imagesRefused(t),
  }),
});

const DeleteImagesPayloadRef = builder.objectRef<ImagesEdited>("DeleteImagesPayload").implement({
  description: "Answer to deleteImages.",
  fields: (t) => ({
    count: t.int({ description: "Number of images that were deleted.", resolve: ({ imageIds }) => imageIds.length }),
    ...imagesRefused(t),
  }),
});

const ChecksumInput = builder.inputType("ChecksumInput", {
  description: "Checksum of a file.",
  fields: (t) => ({
    algorithm: t.field({
      type: ChecksumAlgorithmEnum,
      required: true,
      defaultValue: "SHA256",
      description: "Function that computed the value.",
    }),
    value: t.string({ required: true, description: "Hexadecimal digits." }),
  }),
});

const RegisterImageInput = builder.inputType("RegisterImageInput", {
  description: "Image to register. `ostler image add` computes the sizes and the checksum from a file.",
  fields: (t) => ({
    name: t.string({
      required: true,
      description: "Unique name: 1–253 letters, digits, dots, dashes or underscores.",
    }),
    description: t.string({ description: "Purpose; at most 1000 characters." }),
    url: t.string({
      description:
        "Address (http or https) from which machines download the file, without user and password. Omitted: the file is in the image folder of the service, named by its checksum as in `sha256-9f86…`.",
    }),
    format: t.field({ type: ImageFormatEnum, required: true, description: "Format of the file." }),
    sizeBytes: t.field({ type: "ByteCount", required: true, description: "Size of the file." }),
    diskBytes: t.field({
      type: "ByteCount",
      description:
        "Size on the disk, that is unpacked. Without it, a disk that is too small is found only while writing.",
    }),
    checksum: t.field({ type: ChecksumInput, required: true, description: "Checksum of the file." }),
    architecture: t.field({
      type: ArchitectureEnum,
      required: true,
      description: "Processor architecture.",
    }),
    bootMode: t.field({
      type: BootModeEnum,
      description: "Only firmware mode in which it starts. Omitted: it starts in both.",
    }),
    labels: t.field({ type: [LabelInput], description: "Labels of the image." }),
    userData: t.string({
      description:
        "Default user data for cloud-init, at most 64 KiB, for deployments that give none. A secret: never returned or logged.",
    }),
    callsHome: t.boolean({
      required: true,
      defaultValue: true,
      description: "Whether the installed system reports that it runs. False: deployments do not wait for it.",
    }),
  }),
});

const RegisterImagesInput = builder.inputType("RegisterImagesInput", {
  description: "Images to register; all or none are registered.",
  fields: (t) => ({
    images: t.field({ type: [RegisterImageInput], required: true, description: "Images, 1 to 100." }),
  }),
});

const UpdateImageInput = builder.inputType("UpdateImageInput", {
  description: "Changes to an image. Omitted fields stay as they are. The content cannot change.",
  fields: (t) => ({
    image: t.field({ type: ImageRefInput, required: true, description: "Image to change." }),
    ifRevision: t.int({ description: "Refuse the request if the image has another revision." }),
    name: t.string({ description: "New unique name." }),
    description: t.string({ description: "New description; null removes it." }),
    url: t.string({
      description: "New address of the same file. Unfinished operations download it from there. Not for stored images.",
    }),
    diskBytes: t.field({ type: "ByteCount", description: "Size on the disk, that is unpacked; null if unknown." }),
    architecture: t.field({ type: ArchitectureEnum, description: "Processor architecture." }),
    bootMode: t.field({
      type: BootModeEnum,
      description: "Only firmware mode in which it starts; null if it starts in both.",
    }),
    labels: t.field({ type: [LabelInput], description: "Labels; replaces the present ones." }),
    userData: t.string({
      description: "New default user data; null removes it. Operations that were accepted keep the earlier one.",
    }),
    callsHome: t.boolean({ description: "Whether the installed system reports that it runs." }),
  }),
});

const DeleteImagesInput = builder.inputType("DeleteImagesInput", {
  description: "Images to delete; all or none are deleted.",
  fields: (t) => ({
    images: t.field({ type: [ImageRefInput], required: true, description: "Images, at least one." }),
    force: t.boolean({
      required: true,
      defaultValue: false,
      description: "Delete images although nodes are installed with them. The nodes keep their systems.",
    }),
  }),
});

builder.mutationField("registerImages", (t) =>
  t.field({
    type: RegisterImagesPayloadRef,
    ...needs("MANAGE"),
    description:
      "Register images of operating systems. All or none are registered; `errors` has every error of every image.",
    args: { input: t.arg({ type: RegisterImagesInput, required: true, description: "The images." }) },
    resolve: (_root, { input }, context) =>
      context.services.engine.registerImages(
        callerOf(context),
        input.images.map((image) => ({
          ...image,
          description: given(image.description),
          url: given(image.url),
          diskBytes: given(image.diskBytes),
          bootMode: image.bootMode ?? null,
          labels: labelsOf(image.labels),
          userData: given(image.userData),
        })),
      ),
  }),
);

builder.mutationField("updateImage", (t) =>
  t.field({
    type: UpdateImagePayloadRef,
    ...needs("MANAGE"),
    description: "Rename an image, or change its address, its default user data or its properties.",
    args: { input: t.arg({ type: UpdateImageInput, required: true, description: "Changes to make." }) },
    resolve: (_root, { input }, context) => {
      const { image, ifRevision, name, url, architecture, labels, callsHome, ...change } = input;
      return context.services.engine.updateImage(callerOf(context), imageChoice(image), {
        ...change,
        ifRevision: given(ifRevision),
        name: given(name),
        url: given(url),
        architecture: given(architecture),
        labels: labelsOf(labels),
        callsHome: given(callsHome),
      });
    },
  }),
);

builder.mutationField("deleteImages", (t) =>
  t.field({
    type: DeleteImagesPayloadRef,
    ...needs("MANAGE"),
    description: "Delete images that no unfinished operation installs, with the files that the service stores of them.",
    args: { input: t.arg({ type: DeleteImagesInput, required: true, description: "Images to delete." }) },
    resolve: (_root, { input }, context) =>
      context.services.engine.deleteImages(callerOf(context), {
        images: input.images.map(imageChoice),
        force: input.force,
      }),
  }),
);
