ALTER TABLE "images" ALTER COLUMN "boot_mode" DROP NOT NULL;
--> statement-breakpoint
-- decision 0039: there are few images
UPDATE "images" SET "boot_mode" = NULL WHERE "boot_mode" = 'ANY';
