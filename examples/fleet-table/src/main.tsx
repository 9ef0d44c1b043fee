import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Provider } from "urql";
import { client } from "./api/connection.ts";
import { App } from "./app.tsx";
import "./style.css";

const root = document.querySelector("#root");
if (!root) throw new Error("index.html has no element #root.");
createRoot(root).render(
  <StrictMode>
    <Provider value={client}>
      <App />
    </Provider>
  </StrictMode>,
);
