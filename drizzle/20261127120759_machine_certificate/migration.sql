CREATE TABLE "machine_certificate" (
	"id" text PRIMARY KEY,
	"certificate" text NOT NULL,
	"key" text NOT NULL,
	"created_at" timestamp(3) with time zone DEFAULT now() NOT NULL
);
