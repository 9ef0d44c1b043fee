/** A screen or dialog in every theme. */
import type { Lab } from "./lab.ts";
import type { Tab } from "./tab.ts";

const THEMES = {
  light: { colorScheme: "light" },
  dark: { colorScheme: "dark" },
  "forced colors": { forcedColors: "active" },
} as const;

/** Checks the page with axe in every theme, and takes a picture in the first two. */
export async function judgeLooks(
  { check, pictures }: Pick<Lab, "check" | "pictures">,
  { page, violations }: Tab,
  screen: string,
): Promise<void> {
  for (const [theme, media] of Object.entries(THEMES)) {
    await page.emulateMedia({ colorScheme: "light", forcedColors: "none", ...media });
    check(`axe finds nothing: ${screen}, ${theme}`, await violations());
    if (pictures && theme !== "forced colors")
      await page.screenshot({ path: `${pictures}${screen.replaceAll(" ", "-")}-${theme}.png`, fullPage: true });
  }
  await page.emulateMedia({ colorScheme: "light", forcedColors: "none" });
}
