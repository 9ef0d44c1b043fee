/** Mutations that register, change and delete images. They start no work. */
import type { ImagesEdited } from "../../../engine/images/images.ts";
import { existing } from "../../base/batching.ts";
import { builder, given } from "../../base/builder.ts";
import { addMutation } from "../../base/mutation.ts";
import type { OutputFields } from "../../base/builder.ts";
import { ArchitectureEnum, BootModeEnum, ChecksumAlgorithmEnum, ImageFormatEnum } from "../../base/enums.ts";
import { payloadType, refusalFields } from "../../base/payload.ts";
import { ImageRef, ImageRefInput, imageChoice } from "./image.ts";
import { LabelInput } from "../selectors.ts";

const imagesRefused = (t: OutputFields<ImagesEdited>) =>
  refusalFields(t, "Every reason why the request was refused; empty if it succeeded.");

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

addMutation("registerImages", {
  scope: "MANAGE",
  description:
    "Register images of operating systems. All or none are registered; `errors` has every error of every image.",
  input: builder.inputType("RegisterImagesInput", {
    description: "Images to register; all or none are registered.",
    fields: (t) => ({
      images: t.field({ type: [RegisterImageInput], required: true, description: "Images, 1 to 100." }),
    }),
  }),
  argument: "The images.",
  payload: payloadType<ImagesEdited>("registerImages", (t) => ({
    images: t.field({
      type: [ImageRef],
      description: "The images, in the order of the request; empty if the request was refused.",
      resolve: ({ imageIds }, _args, { load }) => existing(load.image, imageIds),
    }),
    ...imagesRefused(t),
  })),
  run: (input, engine, caller) =>
    engine.registerImages(
      caller,
      input.images.map((image) => ({
        ...image,
        description: given(image.description),
        url: given(image.url),
        diskBytes: given(image.diskBytes),
        bootMode: image.bootMode ?? null,
        labels: given(image.labels),
        userData: given(image.userData),
      })),
    ),
});

addMutation("updateImage", {
  scope: "MANAGE",
  description: "Rename an image, or change its address, its default user data or its properties.",
  input: builder.inputType("UpdateImageInput", {
    description: "Changes to an image. Omitted fields stay as they are. The content cannot change.",
    fields: (t) => ({
      image: t.field({ type: ImageRefInput, required: true, description: "Image to change." }),
      ifRevision: t.int({ description: "Refuse the request if the image has another revision." }),
      name: t.string({ description: "New unique name." }),
      description: t.string({ description: "New description; null removes it." }),
      url: t.string({
        description:
          "New address of the same file. Unfinished operations download it from there. Not for stored images.",
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
  }),
  argument: "Changes to make.",
  payload: payloadType<ImagesEdited>("updateImage", (t) => ({
    image: t.field({
      type: ImageRef,
      nullable: true,
      description: "The image after the change; null if the request was refused.",
      resolve: async ({ imageIds }, _args, { load }) => (await existing(load.image, imageIds))[0] ?? null,
    }),
    ...imagesRefused(t),
  })),
  run: (input, engine, caller) => {
    const { image, ifRevision, name, url, architecture, labels, callsHome, ...change } = input;
    return engine.updateImage(caller, imageChoice(image), {
      ...change,
      ifRevision: given(ifRevision),
      name: given(name),
      url: given(url),
      architecture: given(architecture),
      labels: given(labels),
      callsHome: given(callsHome),
    });
  },
});

addMutation("deleteImages", {
  scope: "MANAGE",
  description: "Delete images that no unfinished operation installs, with the files that the service stores of them.",
  input: builder.inputType("DeleteImagesInput", {
    description: "Images to delete; all or none are deleted.",
    fields: (t) => ({
      images: t.field({ type: [ImageRefInput], required: true, description: "Images, at least one." }),
      force: t.boolean({
        required: true,
        defaultValue: false,
        description: "Delete images although nodes are installed with them. The nodes keep their systems.",
      }),
    }),
  }),
  argument: "Images to delete.",
  payload: payloadType<ImagesEdited>("deleteImages", (t) => ({
    count: t.int({ description: "Number of images that were deleted.", resolve: ({ imageIds }) => imageIds.length }),
    ...imagesRefused(t),
  })),
  run: (input, engine, caller) =>
    engine.deleteImages(caller, {
      images: input.images.map(imageChoice),
      force: input.force,
    }),
});
