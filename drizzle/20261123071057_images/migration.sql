CREATE TABLE "image_secrets" (
	"image_id" uuid PRIMARY KEY,
	"user_data" text NOT NULL
);
--> statement-breakpoint
CREATE TABLE "images" (
	"id" uuid PRIMARY KEY,
	"name" text NOT NULL UNIQUE,
	"description" text,
	"url" text,
	"format" text NOT NULL,
	"size_bytes" bigint NOT NULL,
	"disk_bytes" bigint,
	"checksum_algorithm" text NOT NULL,
	"checksum" text NOT NULL,
	"architecture" text NOT NULL,
	"boot_mode" text NOT NULL,
	"labels" jsonb NOT NULL,
	"calls_home" boolean DEFAULT true NOT NULL,
	"user_data_bytes" integer,
	"revision" integer DEFAULT 1 NOT NULL,
	"created_at" timestamp(3) with time zone DEFAULT now() NOT NULL,
	"updated_at" timestamp(3) with time zone DEFAULT now() NOT NULL
);
--> statement-breakpoint
CREATE TABLE "operation_secrets" (
	"operation_id" uuid PRIMARY KEY,
	"user_data" text NOT NULL
);
--> statement-breakpoint
ALTER TABLE "nodes" ADD COLUMN "image_id" uuid;--> statement-breakpoint
ALTER TABLE "operations" ADD COLUMN "image_id" uuid;--> statement-breakpoint
ALTER TABLE "operations" ADD COLUMN "user_data_bytes" integer;--> statement-breakpoint
CREATE INDEX "images_checksum" ON "images" ("checksum");--> statement-breakpoint
ALTER TABLE "image_secrets" ADD CONSTRAINT "image_secrets_image_id_images_id_fkey" FOREIGN KEY ("image_id") REFERENCES "images"("id") ON DELETE CASCADE;--> statement-breakpoint
ALTER TABLE "operation_secrets" ADD CONSTRAINT "operation_secrets_operation_id_operations_id_fkey" FOREIGN KEY ("operation_id") REFERENCES "operations"("id") ON DELETE CASCADE;