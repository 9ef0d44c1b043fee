// First: the size of text is read of it.
import "./style.css";
// Second: it asks the service, while the rest is evaluated.
import { rightsAreKnown } from "./data/session.ts";
import { CSPProvider } from "@base-ui/react/csp-provider";
import { QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Router } from "wouter";
import { App } from "./app.tsx";
import { queryClient } from "./data/queries.ts";

const root = document.querySelector("#root");
if (!root) throw new Error("index.html has no element #root.");
// A file that another build no longer has: the page of the new build names the right ones.
addEventListener("vite:preloadError", () => location.reload());
const screens = createRoot(root);
void rightsAreKnown.then(() =>
  screens.render(
    <StrictMode>
      <CSPProvider disableStyleElements>
        <QueryClientProvider client={queryClient}>
          <Router base="/console">
            <App />
          </Router>
        </QueryClientProvider>
      </CSPProvider>
    </StrictMode>,
  ),
);
