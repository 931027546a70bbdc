import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Properties;

/** Asks pgjdbc what Metabase and DBeaver ask it, and prints each answer as lines. */
public class Metadata {
    private static final String TEXT = "SELECT sex, COUNT(*) AS n FROM people WHERE age < ? GROUP BY sex";

    public static void main(String[] arguments) throws SQLException {
        Properties properties = new Properties();
        properties.setProperty("user", "ada");
        properties.setProperty("password", arguments[1]);
        properties.setProperty("ApplicationName", "Metabase");
        if (arguments.length > 2) {
            properties.setProperty("sslmode", "verify-full");
            properties.setProperty("sslrootcert", arguments[2]);
        }
        try (Connection connection = DriverManager.getConnection(arguments[0], properties)) {
            DatabaseMetaData data = connection.getMetaData();
            System.out.println("product " + data.getDatabaseProductName() + " "
                    + data.getDatabaseProductVersion());
            System.out.println("keywords " + (data.getSQLKeywords().length() >= 0));
            show("catalogs", data.getCatalogs(), "TABLE_CAT");
            show("schemas", data.getSchemas(), "TABLE_SCHEM");
            show("schemas like", data.getSchemas(null, "pub%"), "TABLE_SCHEM");
            show("table types", data.getTableTypes(), "TABLE_TYPE");
            show("tables", data.getTables(null, "public", "%", new String[] {"TABLE", "VIEW",
                "PARTITIONED TABLE", "MATERIALIZED VIEW", "FOREIGN TABLE"}),
                "TABLE_SCHEM", "TABLE_NAME", "TABLE_TYPE");
            show("tables like", data.getTables(null, null, "peo\\_le", null), "TABLE_NAME");
            show("columns", data.getColumns(null, "public", "people", null), "COLUMN_NAME",
                "TYPE_NAME", "DATA_TYPE", "NULLABLE", "ORDINAL_POSITION", "IS_AUTOINCREMENT");
            show("primary keys", data.getPrimaryKeys(null, "public", "people"), "COLUMN_NAME");
            show("indexes", data.getIndexInfo(null, "public", "people", false, true), "INDEX_NAME");
            show("imported keys", data.getImportedKeys(null, "public", "people"), "FK_NAME");
            show("exported keys", data.getExportedKeys(null, "public", "people"), "FK_NAME");
            show("types", data.getTypeInfo(), "TYPE_NAME", "DATA_TYPE");
            show("privileges", data.getTablePrivileges(null, "public", "people"), "PRIVILEGE");
            show("functions", data.getFunctions(null, null, "%"), "FUNCTION_NAME");
            show("procedures", data.getProcedures(null, null, "%"), "PROCEDURE_NAME");
            show("client info", data.getClientInfoProperties(), "NAME");
            System.out.println("limits " + data.getMaxColumnNameLength());
            ask(connection);
        }
    }

    private static void ask(Connection connection) throws SQLException {
        connection.setReadOnly(true);
        connection.setAutoCommit(false);
        connection.setTransactionIsolation(Connection.TRANSACTION_READ_COMMITTED);
        System.out.println("valid " + connection.isValid(5) + " " + connection.getSchema());
        try (PreparedStatement statement = connection.prepareStatement(TEXT)) {
            statement.setFetchSize(2);
            ResultSetMetaData shape = statement.getMetaData();
            for (int i = 1; i <= shape.getColumnCount(); i++) {
                System.out.println("shape " + shape.getColumnName(i) + " "
                        + shape.getColumnTypeName(i));
            }
            // After five times pgjdbc prepares by name, and asks for numbers in binary.
            for (int i = 0; i < 8; i++) {
                statement.setInt(1, 25);
                show("rows", statement.executeQuery(), "sex", "n", "n_low", "n_high");
            }
        }
        connection.commit();
        connection.setAutoCommit(true);
        try (Statement statement = connection.createStatement()) {
            statement.executeQuery("SELECT COUNT(*) FROM people WHERE age > 27 WITHIN 1");
        } catch (SQLException error) {
            System.out.println("refused " + error.getSQLState());
        }
        show("one", connection.createStatement().executeQuery("SELECT 1"), "?column?");
    }

    private static void show(String name, ResultSet rows, String... columns) throws SQLException {
        System.out.println(name);
        while (rows.next()) {
            StringBuilder line = new StringBuilder("  ");
            for (String column : columns) {
                line.append(rows.getString(column)).append(' ');
            }
            System.out.println(line.toString().stripTrailing());
        }
        rows.close();
    }
}
